/**
 * Decodes the pictures in a response of the Images API, `{"data":[{"b64_json":"…"},…]}`, while the
 * response is received. No complete picture is held in memory, because a response may contain ten
 * pictures of many megabytes.
 */
import { Readable } from 'node:stream';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import type { ProviderOutput } from '../../storage/provider-output.ts';

/** Decoded bytes of a picture. */
interface Piece {
  /** Index of the picture in the response, from 0. */
  index: number;
  bytes: Buffer;
}

/** Maximum number of characters of a field name to store, for the comparison with `b64_json`. */
const nameLengthMax = 32;

/**
 * Scanner that finds the values of `b64_json` in a JSON text and decodes them, without parsing the
 * other JSON.
 */
class PictureScanner {
  #mode: 'outside' | 'string' | 'picture' = 'outside';
  #isEscaped = false;
  #expectsPicture = false;
  #string = '';
  /** Base64 characters that do not form complete bytes until the next chunk arrives. */
  #carry = '';
  #index = -1;

  /** Returns whether the text read so far ends inside a picture. */
  get insidePicture(): boolean {
    return this.#mode === 'picture';
  }

  /** Scans the next chunk of the text, and yields the decoded pieces of pictures. */
  *scan(chunk: Buffer): Generator<Piece> {
    const text = chunk.toString('latin1');
    let at = 0;
    while (at < text.length) {
      if (this.#mode === 'picture') {
        const quote = text.indexOf('"', at);
        const end = quote < 0 ? text.length : quote;
        yield* this.#decode(text.slice(at, end), quote >= 0);
        at = end + 1;
      } else {
        this.#step(text.charAt(at));
        at += 1;
      }
    }
  }

  *#decode(run: string, isEnd: boolean): Generator<Piece> {
    // JSON may escape the slash of base64; the other characters of base64 are never escaped.
    const base64 = this.#carry + run.replaceAll('\\', '');
    const decodable = isEnd ? base64.length : base64.length - (base64.length % 4);
    this.#carry = base64.slice(decodable);
    if (isEnd) this.#mode = 'outside';
    if (decodable > 0) {
      yield { index: this.#index, bytes: Buffer.from(base64.slice(0, decodable), 'base64') };
    }
  }

  #step(character: string): void {
    if (this.#mode === 'string') this.#stepInString(character);
    else if (character === '"' && this.#expectsPicture) {
      this.#expectsPicture = false;
      this.#mode = 'picture';
      this.#index += 1;
    } else if (character === '"') {
      this.#mode = 'string';
      this.#string = '';
    } else if (character === ':') this.#expectsPicture = this.#string === 'b64_json';
    else if (character.trim() !== '') this.#expectsPicture = false;
  }

  #stepInString(character: string): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (character === '\\') this.#isEscaped = true;
    else if (character === '"') this.#mode = 'outside';
    else if (this.#string.length < nameLengthMax) this.#string += character;
  }
}

async function* readPieces(body: Readable): AsyncGenerator<Piece> {
  const scanner = new PictureScanner();
  const chunks: AsyncIterable<Buffer> = body;
  for await (const chunk of chunks) yield* scanner.scan(chunk);
  if (scanner.insidePicture)
    throw new ProviderFailure('failed', 'the provider ended its response unexpectedly');
}

/**
 * Returns a stream for each of the first `count` pictures of a response. If a picture is missing,
 * its stream fails.
 */
export function streamPictures(body: Readable, count: number): ProviderOutput[] {
  const pieces = readPieces(body);
  let nextPiece: Piece | undefined;

  async function* picture(index: number, turn: Promise<void>): AsyncGenerator<Buffer> {
    await turn;
    let hasPieces = false;
    for (;;) {
      const piece = nextPiece ?? (await pieces.next()).value;
      nextPiece = undefined;
      // This piece belongs to an earlier picture whose reader has stopped, so it is skipped.
      if (piece && piece.index < index) continue;
      if (!piece || piece.index > index) {
        nextPiece = piece ?? undefined;
        if (hasPieces) return;
        throw new ProviderFailure('failed', 'the provider delivered fewer pictures than requested');
      }
      hasPieces = true;
      yield piece.bytes;
    }
  }

  let turn = Promise.resolve();
  return Array.from({ length: count }, (_, index): ProviderOutput => {
    const stream = Readable.from(picture(index, turn), { objectMode: false });
    // The next picture is read when this stream closes, even after an error.
    turn = new Promise((resolve) => {
      stream.once('close', resolve);
    });
    if (index === count - 1) void turn.then(() => body.on('error', () => {}).destroy());
    return { kind: 'stream', stream };
  });
}
