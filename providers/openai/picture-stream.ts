/**
 * Images of an Images API response, `{"data":[{"b64_json":"…"},…]}`, decoded while they arrive. A
 * response may contain ten images of many megabytes, and none of them is held in memory as a whole.
 */
import { Readable } from 'node:stream';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import type { ProviderOutput } from '../../storage/artifacts.ts';

interface Piece {
  /** Index of the image in the response, from 0. */
  index: number;
  bytes: Buffer;
}

/** Longest field name; longer strings are values. */
const nameLengthMax = 32;

/** Finds the values of `b64_json` in JSON and decodes them. */
class PictureScanner {
  #mode: 'outside' | 'string' | 'picture' = 'outside';
  #isEscaped = false;
  #expectsPicture = false;
  #string = '';
  /** Base64 characters that do not form whole bytes yet. */
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
    // JSON may escape the slash of base64; no other base64 character needs an escape.
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

/** Returns `count` images of the response in its order; a missing image fails when it is read. */
export function streamPictures(body: Readable, count: number): ProviderOutput[] {
  const pieces = piecesOf(body);
  let ahead: Piece | undefined;

  async function* picture(index: number, turn: Promise<void>): AsyncGenerator<Buffer> {
    await turn;
    let found = false;
    for (;;) {
      const piece = ahead ?? (await pieces.next()).value;
      ahead = undefined;
      // Rest of an image whose reader has stopped.
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
    // The next image begins when the stream of this one is closed, also after an error.
    turn = new Promise((resolve) => {
      stream.once('close', resolve);
    });
    if (index === count - 1) void turn.then(() => body.on('error', () => {}).destroy());
    return { kind: 'stream', stream };
  });
}
