/**
 * Cost of parsing and checking a JSON text, counted while it arrives: its depth, its number of
 * values, and its bytes outside of plain texts. A body over a limit is not read further, so that it
 * does not delay other requests (docs/architecture.md).
 */
import { GatewayError } from '../../domain/errors.ts';

/** Deepest nesting; no valid request nests deeper, and the parser's stack must not overflow. */
const depthMax = 32;
/** Most values; the longest conversation with tool calls has fewer. */
const valuesMax = 50_000;
/**
 * Most escapes, which are slow to parse; a long text of code, or an image with escaped slashes, has
 * fewer.
 */
const escapesMax = 1_000_000;
/** Most bytes of names, digits and spaces between the texts: enough for all values, indented. */
const betweenTextsMax = 4 * 1024 * 1024;

/** Codes of `"`, `,`, `\\\\`, `{`, `}`, `[` and `]`, which are part of no other UTF-8 character. */
const signs = {
  quote: 34,
  comma: 44,
  backslash: 92,
  brace: 123,
  braceEnd: 125,
  bracket: 91,
  bracketEnd: 93,
} as const;

/** Makes the error of a body as a whole. */
export function notABody(message: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', message, { details: [{ path: '(body)', message }] });
}

/** Counter of the values and the depth of one JSON body while it arrives. */
export class JsonMeter {
  #depth = 0;
  #deepest = 0;
  /** Each container and each comma counts as one value, so an empty container counts as two. */
  #values = 1;
  #escapes = 0;
  #betweenTexts = 0;
  #inText = false;
  #escaped = false;

  /**
   * Counts a piece of the body.
   * @throws GatewayError INVALID_REQUEST
   */
  count(piece: Buffer): void {
    for (let at = 0; at < piece.length;) {
      at = this.#inText ? this.#afterText(piece, at) : this.#untilText(piece, at);
    }
    if (this.#deepest > depthMax) throw notABody(`must not nest deeper than ${depthMax}`);
    if (this.#values > valuesMax) throw notABody(`must not contain more than ${valuesMax} values`);
    if (this.#escapes > escapesMax)
      throw notABody(`must not contain more than ${escapesMax} escapes`);
    if (this.#betweenTexts > betweenTextsMax) {
      throw notABody(`must not contain more than ${betweenTextsMax} bytes outside strings`);
    }
  }

  /** Counts the text at `from`; returns the index of its end, or of the end of the piece. */
  #afterText(piece: Buffer, from: number): number {
    let escapes = 0;
    let escaped = this.#escaped;
    let at = from;
    for (; at < piece.length; at += 1) {
      const sign = piece[at];
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

  /**
   * Counts the characters before the next text; returns the index of the text, or of the end of the
   * piece.
   */
  #untilText(piece: Buffer, from: number): number {
    let values = 0;
    let depth = this.#depth;
    let at = from;
    for (; at < piece.length; at += 1) {
      const sign = piece[at];
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
