/** Tool call of an answer, assembled from the pieces that a provider sends. */
import { randomUUID } from 'node:crypto';
import { asRecord, asText, isRecord } from '../../domain/json.ts';
import { invalidResponseError } from '../upstream-failures.ts';

/** Piece of a tool call in OpenAI's format; texts that it does not contain are empty. */
export interface CallPiece {
  /** Index that the provider gave the call; its position in the chunk if there is none. */
  index: number;
  id: string;
  name: string;
  json: string;
  /** Other fields of the call, such as Google's `extra_content`. */
  extra: Record<string, unknown>;
}

/** Parses an entry of `tool_calls`. */
export function parseCallPiece(value: unknown, position: number): CallPiece {
  const { index, id, type: _, function: fields, ...extra } = asRecord(value);
  const { name, arguments: json } = asRecord(fields);
  const number = typeof index === 'string' && index !== '' ? Number(index) : index;
  return {
    index: Number.isSafeInteger(number) ? Number(number) : position,
    id: asText(id),
    name: asText(name),
    // Some providers send the arguments as an object.
    json: isRecord(json) || Array.isArray(json) ? JSON.stringify(json) : asText(json),
    extra,
  };
}

/**
 * Pattern of empty arguments. They are sent when the call ends, because some providers begin with
 * them and send the real arguments afterwards.
 */
const emptyArguments = /^\s*(?:(?:\{\s*\}|null)\s*)?$/;

/** Tool call that is being assembled. */
export class StreamedCall {
  /** Index that the provider gave the call. */
  readonly index: number;
  /** True once nothing can follow: the provider has ended the call, or the next one is being sent. */
  isStopped = false;
  /** Id that the provider gave the call; another call may have the same one. */
  #id: string;
  readonly #hasTakenId: boolean;
  #name: string;
  #json = '';
  #extra: CallPiece['extra'];
  /**
   * Pieces that begin like all arguments before them. They are either nested objects or the
   * arguments again from their beginning; later pieces decide this.
   */
  #repeats: string[] = [];
  /** Length of the arguments that the caller has received; null if it has received nothing. */
  #sentLength: number | null = null;
  /** Index of the call in the answer. */
  #number = 0;
  readonly #scan = new JsonScan();

  /** With `hasTakenId`, another call of the answer has the id of this one, which gets a new id. */
  constructor({ index, id, name, extra }: CallPiece, hasTakenId: boolean) {
    this.index = index;
    this.#id = id;
    this.#hasTakenId = hasTakenId;
    this.#name = name;
    this.#extra = extra;
  }

  hasId(id: string): boolean {
    return this.#id === id;
  }

  /** True if the arguments are a whole object, or the provider has ended the call. */
  get isWhole(): boolean {
    return this.isStopped || (this.#repeats.length === 0 && this.#scan.isWhole);
  }

  /** Returns whether a piece at the call's index belongs to this call, and not to a new one. */
  continuesAtIndex({ id, name, json }: CallPiece): boolean {
    const isUnnamed = name === '' || this.#name === '';
    const hasSameName = isUnnamed || name === this.#name;
    if (id === '') {
      return isUnnamed || (hasSameName && (!this.isWhole || this.#isRepeated(json)));
    }
    if (this.#id === '') return hasSameName && (!this.isWhole || json === '');
    // Some providers send a new id with each piece of the arguments.
    const isMiddle = this.#json !== '' && !this.isWhole && !/^\s*(\{|$)/.test(json);
    return name === '' && isMiddle;
  }

  /** Returns whether a piece with the call's id belongs to this call, and not to a new one. */
  continuesById({ index, name, json }: CallPiece): boolean {
    if (name === '') return true;
    if (index === this.index) return !this.isWhole || this.#isRepeated(json);
    return json !== '' && json.startsWith(this.#json);
  }

  /** @throws GatewayError if the piece cannot belong to this call */
  add({ id, name, json, extra }: CallPiece): void {
    this.#id ||= id;
    this.#name ||= name;
    this.#extra = { ...extra, ...this.#extra };
    if (json !== '') this.#append(json);
  }

  /** Marks the call as whole, because the provider has ended it. */
  stop(): void {
    this.#resolveRepeats();
    this.isStopped = true;
  }

  /**
   * Returns what the caller has not received yet, as an entry of `tool_calls`; null if there is
   * nothing. `number` is the call's index in the answer. With `ends`, nothing follows.
   * @throws GatewayError if the call ends without a name
   */
  take(number: number, ends: boolean): Record<string, unknown> | null {
    if (ends) {
      this.stop();
      if (this.#name === '' && this.#json === '') return null;
      if (this.#name === '') throw invalidResponseError(null);
      if (this.#isEmpty) this.#json = '{}';
    } else if (this.#id === '' || this.#name === '') return null;
    const isPlaceholder = !ends && this.#isEmpty;
    const piece = isPlaceholder ? '' : this.#json.slice(this.#sentLength ?? 0);
    if (this.#sentLength === null) {
      this.#number = number;
      this.#sentLength = piece.length;
      const calledFunction = { name: this.#name, arguments: piece };
      const id = this.#id === '' || this.#hasTakenId ? createCallId() : this.#id;
      return { index: number, id, type: 'function', function: calledFunction, ...this.#extra };
    }
    if (piece === '') return null;
    this.#sentLength += piece.length;
    return { index: this.#number, function: { arguments: piece } };
  }

  /** True if the call counts as one of the answer's calls. */
  get hasHead(): boolean {
    return this.#sentLength !== null;
  }

  /** True if the arguments are empty so far, and the caller has received none. */
  get #isEmpty(): boolean {
    return !this.#sentLength && emptyArguments.test(this.#json);
  }

  #isRepeated(json: string): boolean {
    return json.trim() === '' || json.trim() === this.#json.trim();
  }

  #append(piece: string): void {
    if (!this.isWhole) {
      const isRepeat = this.#json.trim() !== '' && piece.startsWith(this.#json);
      if (this.#repeats.length === 0 && !isRepeat) this.#write(this.#json + piece);
      else this.#addRepeat(piece);
      return;
    }
    if (this.#isRepeated(piece)) return;
    const isObject = piece.trimStart().startsWith('{');
    if (isObject && this.#isEmpty && !this.isStopped) this.#write(piece);
    else if (isObject || this.isStopped) throw invalidResponseError(null);
    // The model itself wrote more than an object.
    else this.#json += piece;
  }

  #write(json: string): void {
    this.#scan.read(json.startsWith(this.#json) ? json.slice(this.#json.length) : json);
    this.#json = json;
  }

  #addRepeat(piece: string): void {
    this.#repeats.push(piece);
    const joined = this.#json + this.#repeats.join('');
    if (piece.trimEnd().endsWith('}') && isJson(joined)) this.#resolveRepeats();
  }

  #resolveRepeats(): void {
    const last = this.#repeats.at(-1);
    if (last === undefined) return;
    const joined = this.#json + this.#repeats.join('');
    const isRestarted = !isJson(joined) && isJson(last) && last.startsWith(this.#json);
    this.#repeats = [];
    this.#write(isRestarted ? last : joined);
  }
}

function createCallId(): string {
  return `call_${randomUUID().replaceAll('-', '').slice(0, 24)}`;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Finds the end of a JSON object whose text arrives in pieces. */
class JsonScan {
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  isWhole = false;

  read(piece: string): void {
    for (const character of piece) {
      if (this.#isEscaped) this.#isEscaped = false;
      else if (this.#isInString) this.#readInString(character);
      else if (character === '"') this.#isInString = true;
      else if (character === '{' || character === '[') this.#depth += 1;
      else if (character === '}' || character === ']') this.#depth -= 1;
      else continue;
      this.isWhole = this.#depth === 0 && !this.#isInString;
    }
  }

  #readInString(character: string): void {
    if (character === '\\') this.#isEscaped = true;
    else if (character === '"') this.#isInString = false;
  }
}
