/**
 * Limits on the cost to parse a JSON body, checked while it arrives: nesting depth, number of
 * values, number of escapes and bytes outside strings. If a body exceeds a limit, the rest is not
 * read, because one body must not delay the requests of other callers (docs/architecture.md).
 */
import { GatewayError } from '../../domain/errors.ts';

/** Highest nesting depth of a body, at which the parser's stack is safe. */
const depthMax = 32;
/** Highest number of values in a body, more than the longest chat with tool calls has. */
const valuesMax = 50_000;
/** Highest number of escapes in a body; they are slow to parse. */
const escapesMax = 1_000_000;
/** Highest number of bytes outside strings: enough for `valuesMax` indented values. */
const betweenTextsMax = 4 * 1024 * 1024;

/** Byte values of the signs, which no other character contains in UTF-8. */
const signs = {
  quote: 34,
  comma: 44,
  backslash: 92,
  brace: 123,
  braceEnd: 125,
  bracket: 91,
  bracketEnd: 93,
} as const;

/** Makes the error INVALID_REQUEST for a body that cannot be parsed; its path is `(body)`. */
export function invalidBody(message: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', message, { details: [{ path: '(body)', message }] });
}

/** Counter of the values and the depth of one JSON body while it arrives. */
export class JsonMeter {
  #depth = 0;
  #deepest = 0;
  /** Number of values: containers and commas, so an empty container counts as two. */
  #values = 1;
  #escapes = 0;
  #betweenTexts = 0;
  #inText = false;
  #escaped = false;

  /** Counts a chunk. @throws GatewayError INVALID_REQUEST if the body exceeds a limit */
  count(chunk: Buffer): void {
    for (let at = 0; at < chunk.length;) {
      at = this.#inText ? this.#afterText(chunk, at) : this.#untilText(chunk, at);
    }
    if (this.#deepest > depthMax) throw invalidBody(`must not nest deeper than ${depthMax}`);
    if (this.#values > valuesMax)
      throw invalidBody(`must not contain more than ${valuesMax} values`);
    if (this.#escapes > escapesMax)
      throw invalidBody(`must not contain more than ${escapesMax} escapes`);
    if (this.#betweenTexts > betweenTextsMax) {
      throw invalidBody(`must not contain more than ${betweenTextsMax} bytes outside strings`);
    }
  }

  /** Counts the escapes of the string at `from`; returns the index after its end. */
  #afterText(chunk: Buffer, from: number): number {
    let escapes = 0;
    let escaped = this.#escaped;
    let at = from;
    for (; at < chunk.length; at += 1) {
      const sign = chunk[at];
      if (escaped) escaped = false;
      else if (sign === signs.backslash) {
        escaped = true;
        escapes += 1;
      } else if (sign === signs.quote) {
        this.#inText = false;
        at += 1;
        break;
      }
    }
    this.#escaped = escaped;
    this.#escapes += escapes;
    return at;
  }

  /** Counts the bytes before the next string; returns the index after its opening quote. */
  #untilText(chunk: Buffer, from: number): number {
    let values = 0;
    let depth = this.#depth;
    let at = from;
    for (; at < chunk.length; at += 1) {
      const sign = chunk[at];
      if (sign === signs.comma) values += 1;
      else if (sign === signs.brace || sign === signs.bracket) {
        values += 1;
        depth += 1;
        if (depth > this.#deepest) this.#deepest = depth;
      } else if (sign === signs.braceEnd || sign === signs.bracketEnd) depth -= 1;
      else if (sign === signs.quote) {
        this.#inText = true;
        at += 1;
        break;
      }
    }
    this.#depth = depth;
    this.#values += values;
    this.#betweenTexts += at - from;
    return at;
  }
}
