/**
 * What a JSON text would cost to parse and to look at, counted while it arrives: how deep it nests, how
 * many values it holds, and how much of it is not plain text. What is beyond a limit is read no further,
 * so that nobody's body holds up the others' (docs/architecture.md).
 */
import { GatewayError } from '../../domain/errors.ts';

/** No request of ours nests deeper; a parser's stack must not be the limit. */
const depthMax = 32;
/** The longest conversation, each message with calls of tools, has fewer. */
const valuesMax = 50_000;
/** Escapes are dear to parse; a long text of code or a picture with escaped slashes has fewer. */
const escapesMax = 1_000_000;
/** Names, digits and spaces between the texts: room for all values, indented. */
const betweenTextsMax = 4 * 1024 * 1024;

/** Codes of `"`, `,`, `\\`, `{`, `}`, `[` and `]`: in UTF-8 they are part of no other character. */
const signs = {
  quote: 34,
  comma: 44,
  backslash: 92,
  brace: 123,
  braceEnd: 125,
  bracket: 91,
  bracketEnd: 93,
} as const;

/** The refusal of a body as a whole. */
export function notABody(message: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', message, { details: [{ path: '(body)', message }] });
}

/** Counter of the size and depth of one JSON body while it arrives. */
export class JsonMeter {
  #depth = 0;
  #deepest = 0;
  /** Every container and every comma brings one value, but for empty containers, which count as two. */
  #values = 1;
  #escapes = 0;
  #betweenTexts = 0;
  #inText = false;
  #escaped = false;

  /**
   * Counts what has arrived, piece by piece.
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

  /** Counts the text at `from`; returns where it ends, or where the piece does. */
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

  /** Counts what stands before the next text; returns where that begins, or where the piece ends. */
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
