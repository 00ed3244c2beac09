/**
 * The pictures of an Images API answer, `{"data":[{"b64_json":"…"},…]}`, decoded while they come: an
 * answer may hold ten pictures of many megabytes, and none of them is ever held as a whole.
 */
import { Readable } from 'node:stream';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import type { ProviderOutput } from '../../storage/artifacts.ts';

interface Piece {
  /** Which picture of the answer, from 0. */
  index: number;
  bytes: Buffer;
}

/** Longer strings are no field names. */
const nameLengthMax = 32;

/** Reads just enough JSON to find the values of `b64_json`, and decodes these. */
class PictureScanner {
  #mode: 'outside' | 'string' | 'picture' = 'outside';
  #isEscaped = false;
  #expectsPicture = false;
  #string = '';
  /** Base64 that does not yet make whole bytes. */
  #carry = '';
  #index = -1;

  get insidePicture(): boolean {
    return this.#mode === 'picture';
  }

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
    // JSON may escape the slash of base64; nothing else of base64 needs an escape.
    const base64 = this.#carry + run.replaceAll('\\', '');
    const whole = isEnd ? base64.length : base64.length - (base64.length % 4);
    this.#carry = base64.slice(whole);
    if (isEnd) this.#mode = 'outside';
    if (whole > 0) {
      yield { index: this.#index, bytes: Buffer.from(base64.slice(0, whole), 'base64') };
    }
  }

  #step(sign: string): void {
    if (this.#mode === 'string') this.#stepInString(sign);
    else if (sign === '"' && this.#expectsPicture) {
      this.#expectsPicture = false;
      this.#mode = 'picture';
      this.#index += 1;
    } else if (sign === '"') {
      this.#mode = 'string';
      this.#string = '';
    } else if (sign === ':') this.#expectsPicture = this.#string === 'b64_json';
    else if (sign.trim() !== '') this.#expectsPicture = false;
  }

  #stepInString(sign: string): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (sign === '\\') this.#isEscaped = true;
    else if (sign === '"') this.#mode = 'outside';
    else if (this.#string.length < nameLengthMax) this.#string += sign;
  }
}

async function* piecesOf(body: Readable): AsyncGenerator<Piece> {
  const scanner = new PictureScanner();
  const chunks: AsyncIterable<Buffer> = body;
  for await (const chunk of chunks) yield* scanner.scan(chunk);
  if (scanner.insidePicture)
    throw new ProviderFailure('failed', 'the provider ended its response unexpectedly');
}

/** So many pictures of the answer, in its order; one that it does not hold fails when it is read. */
export function streamPictures(body: Readable, count: number): ProviderOutput[] {
  const pieces = piecesOf(body);
  let ahead: Piece | undefined;

  async function* picture(index: number, turn: Promise<void>): AsyncGenerator<Buffer> {
    await turn;
    let found = false;
    for (;;) {
      const piece = ahead ?? (await pieces.next()).value;
      ahead = undefined;
      // What is left of a picture whose reader gave up.
      if (piece && piece.index < index) continue;
      if (!piece || piece.index > index) {
        ahead = piece ?? undefined;
        if (found) return;
        throw new ProviderFailure('failed', 'the provider delivered fewer pictures');
      }
      found = true;
      yield piece.bytes;
    }
  }

  let turn = Promise.resolve();
  return Array.from({ length: count }, (_, index): ProviderOutput => {
    const stream = Readable.from(picture(index, turn), { objectMode: false });
    // The next one begins when this one is done with, however that came.
    turn = new Promise((resolve) => {
      stream.once('close', resolve);
    });
    if (index === count - 1) void turn.then(() => body.on('error', () => {}).destroy());
    return { kind: 'stream', stream };
  });
}
