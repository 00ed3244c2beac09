/**
 * Parses JSON without changing its numbers. JavaScript changes integers above 2^53 and numbers such
 * as `1e400`; `JSON.stringify` writes the numbers that are kept here as they arrived.
 */
import { randomUUID } from 'node:crypto';
import { isRecord, type Json, type JsonObject } from './json.ts';

declare global {
  // The types of TypeScript lack these functions of ES2026.
  interface JSON {
    rawJSON(text: string): object;
    isRawJSON(value: unknown): boolean;
  }
}

/** Number in a JSON text, where one may stand. */
const numberPattern = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?=\s*[,\]}])/y;
/** Beginning of the string that stands for a number; unknown to callers. */
const mark = randomUUID();

const quote = 34;
const backslash = 92;
/** Characters after which a number may stand: blanks, comma, colon, opening bracket. */
const beforeNumber: ReadonlySet<number> = new Set([9, 10, 13, 32, 44, 58, 91]);

/**
 * Replaces the numbers that JavaScript would write differently by marked strings. Returns null if
 * there are none. A reviver of `JSON.parse` would take 40 times as long.
 */
function markNumbers(text: string): string | null {
  let marked = '';
  let copied = 0;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code === quote) index = findStringEnd(text, index);
    else if ((code >= 48 && code <= 57) || code === 45) {
      numberPattern.lastIndex = index;
      const [source = ''] = numberPattern.exec(text) ?? [];
      if (source === '') return null;
      if (String(Number(source)) !== source && beforeNumber.has(text.charCodeAt(index - 1))) {
        marked += `${text.slice(copied, index)}"${mark}${source}"`;
        copied = index + source.length;
      }
      index += source.length - 1;
    }
  }
  return copied === 0 ? null : marked + text.slice(copied);
}

/** Returns the index of the quote that closes the string at `open`; the text's end if none does. */
function findStringEnd(text: string, open: number): number {
  let end = open;
  for (;;) {
    end = text.indexOf('"', end + 1);
    if (end === -1) return text.length;
    let slashes = 0;
    while (text.charCodeAt(end - slashes - 1) === backslash) slashes += 1;
    if (slashes % 2 === 0) return end;
  }
}

/**
 * Parses a text in which numbers keep their source, as raw JSON if JavaScript would write them
 * differently. With `names`, only numbers in objects and arrays in the fields of these names.
 * @throws SyntaxError
 */
export function parseExact(text: string, names?: ReadonlySet<string>): unknown {
  const marked = markNumbers(text);
  if (marked === null) return JSON.parse(text);
  return restoreNumbers(JSON.parse(marked), names === undefined, names);
}

/** Returns an object whose numbers are those of JavaScript, also where they kept their source. */
export function toPlainNumbers(value: JsonObject): JsonObject {
  const convert = (field: Json): Json => {
    if (JSON.isRawJSON(field)) return Number(JSON.stringify(field));
    if (Array.isArray(field)) return field.map(convert);
    return typeof field === 'object' && field !== null ? toPlainNumbers(field) : field;
  };
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, convert(field)]));
}

/** Restores the marked numbers of a parsed value, in the value itself. */
function restoreNumbers(value: unknown, isExact: boolean, names?: ReadonlySet<string>): unknown {
  if (typeof value === 'string') {
    if (!value.startsWith(mark)) return value;
    const source = value.slice(mark.length);
    return isExact ? JSON.rawJSON(source) : Number(source);
  }
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries())
      value[index] = restoreNumbers(item, isExact, names);
  } else if (isRecord(value)) {
    for (const [name, field] of Object.entries(value)) {
      const isNamed = names?.has(name) === true && typeof field === 'object';
      value[name] = restoreNumbers(field, isExact || isNamed, names);
    }
  }
  return value;
}
