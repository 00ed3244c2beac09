/**
 * Limits the cost of parsing a JSON body. Nesting depth, values, escapes and bytes outside strings
 * are counted while the body arrives. Parsing one body must not delay the requests of other callers
 * (docs/decisions/0009-isolation.md).
 */
import { GatewayError } from '../../domain/errors.ts';

/** Maximum nesting depth of a body; the parser's stack is safe at this depth. */
const depthMax = 32;
/** Default maximum number of values in a body; the longest chat with tool calls has fewer. */
const defaultValuesMax = 50_000;
/** Maximum number of escapes in a body. Escapes are slow to parse. */
const escapesMax = 1_000_000;
/** Maximum number of bytes outside strings, enough for the values of every endpoint, indented. */
const outsideStringsMax = 4 * 1024 * 1024;

/** Byte values of JSON's structural characters. No other UTF-8 character contains these bytes. */
const structuralBytes = {
  quote: 34,
  comma: 44,
  backslash: 92,
  brace: 123,
  braceEnd: 125,
  bracket: 91,
  bracketEnd: 93,
} as const;

/** Returns the error INVALID_REQUEST for a whole body. Its detail has the path `(body)`. */
export function invalidBodyError(message: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', message, { details: [{ path: '(body)', message }] });
}

/** Counts the contents of one JSON body and checks the limits while the body arrives. */
export class JsonMeter {
  #depth = 0;
  #depthReached = 0;
  /**
   * Approximate number of values: one, plus one for each comma and opening bracket. An empty array
   * or object counts as two.
   */
  #values = 1;
  #escapes = 0;
  #outsideStrings = 0;
  #isInString = false;
  #isEscaped = false;
  readonly #valuesMax: number;

  constructor(valuesMax = defaultValuesMax) {
    this.#valuesMax = valuesMax;
  }

  /** Counts a chunk. @throws GatewayError INVALID_REQUEST if the body exceeds a limit */
  count(chunk: Buffer): void {
    for (let index = 0; index < chunk.length;) {
      index = this.#isInString
        ? this.#readString(chunk, index)
        : this.#readUntilString(chunk, index);
    }
    if (this.#depthReached > depthMax)
      throw invalidBodyError(`must not nest arrays and objects deeper than ${depthMax} levels`);
    if (this.#values > this.#valuesMax)
      throw invalidBodyError(`must not contain more than ${this.#valuesMax} values`);
    if (this.#escapes > escapesMax)
      throw invalidBodyError(`must not contain more than ${escapesMax} escapes`);
    if (this.#outsideStrings > outsideStringsMax) {
      throw invalidBodyError(
        `must not contain more than ${outsideStringsMax} bytes outside strings`,
      );
    }
  }

  /** Counts the escapes of a string from `start` on. Returns the index after its closing quote. */
  #readString(chunk: Buffer, start: number): number {
    let escapes = 0;
    let isEscaped = this.#isEscaped;
    let index = start;
    for (; index < chunk.length; index += 1) {
      const byte = chunk[index];
      if (isEscaped) isEscaped = false;
      else if (byte === structuralBytes.backslash) {
        isEscaped = true;
        escapes += 1;
      } else if (byte === structuralBytes.quote) {
        this.#isInString = false;
        index += 1;
        break;
      }
    }
    this.#isEscaped = isEscaped;
    this.#escapes += escapes;
    return index;
  }

  /**
   * Counts values, depth and bytes up to the next string. Returns the index after its opening
   * quote.
   */
  #readUntilString(chunk: Buffer, start: number): number {
    let values = 0;
    let depth = this.#depth;
    let index = start;
    for (; index < chunk.length; index += 1) {
      const byte = chunk[index];
      if (byte === structuralBytes.comma) values += 1;
      else if (byte === structuralBytes.brace || byte === structuralBytes.bracket) {
        values += 1;
        depth += 1;
        if (depth > this.#depthReached) this.#depthReached = depth;
      } else if (byte === structuralBytes.braceEnd || byte === structuralBytes.bracketEnd)
        depth -= 1;
      else if (byte === structuralBytes.quote) {
        this.#isInString = true;
        index += 1;
        break;
      }
    }
    this.#depth = depth;
    this.#values += values;
    this.#outsideStrings += index - start;
    return index;
  }
}
