/**
 * Makes the texts of a provider's JSON well-formed: callers send them back, and a body with a NUL
 * character or a lone surrogate is rejected. A model's answer may be cut within a character.
 */
import { parseExact } from '../domain/exact-numbers.ts';
import { isRecord, toStorable, toStorableText, type Json } from '../domain/json.ts';

/** Escapes of surrogates and NUL, the only way in which JSON contains them. */
const escapePattern = /\\u(?:[dD][89a-fA-F]|0000)/;

/** Repairs the texts of a JSON document. Data that are not JSON stay as they are. */
export function repairDocument(json: string): string {
  if (!escapePattern.test(json)) return json;
  try {
    // oxlint-disable-next-line no-unsafe-type-assertion -- the result of parsing JSON
    return JSON.stringify(toStorable(parseExact(json) as Json));
  } catch {
    return json;
  }
}

const endsWithHighSurrogate = /[\uD800-\uDBFF]$/;

/** Repairs the events of one stream. A character may be split between two events. */
export class StreamTextRepair {
  /** First halves of characters, by the place of the text that they end. */
  readonly #held = new Map<string, string>();

  /** Repairs the data of an event. Data that are not JSON stay as they are. */
  repair(data: string): string {
    // Most events contain no escape, and a plain search costs a third of the pattern.
    const needsRepair = this.#held.size > 0 || (data.includes('\\u') && escapePattern.test(data));
    if (!needsRepair) return data;
    let event: unknown;
    try {
      event = parseExact(data);
    } catch {
      return data;
    }
    return JSON.stringify(this.#repairValue(event, ''));
  }

  #repairValue(value: unknown, place: string): unknown {
    if (typeof value === 'string') return this.#repairText(value, place);
    if (Array.isArray(value)) {
      return value.map((item, position) => this.#repairValue(item, `${place}.${position}`));
    }
    if (!isRecord(value) || JSON.isRawJSON(value)) return value;
    // Pieces of parallel tool calls and of content blocks have an index.
    const ownPlace = typeof value['index'] === 'number' ? `${place}#${value['index']}` : place;
    const entries = Object.entries(value).map(([name, field]) => [
      name,
      this.#repairValue(field, `${ownPlace}.${name}`),
    ]);
    return Object.fromEntries(entries);
  }

  #repairText(piece: string, place: string): string {
    const text = (this.#held.get(place) ?? '') + piece;
    this.#held.delete(place);
    const [half = ''] = endsWithHighSurrogate.exec(text) ?? [];
    if (half !== '') this.#held.set(place, half);
    return toStorableText(text.slice(0, text.length - half.length));
  }
}
