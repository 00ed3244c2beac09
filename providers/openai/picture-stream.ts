/**
 * Decodes the pictures in a response of the Images API, `{"data":[{"b64_json":"…"},…]}`, while the
 * response is received. A complete picture is never held in memory, because a response may contain
 * ten pictures of many megabytes.
 */
import { Readable } from 'node:stream';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import type { ProviderOutput } from '../../storage/provider-output.ts';

/** Decoded bytes of a picture. */
interface PicturePiece {
  /** Index of the picture in the response, from 0. */
  index: number;
  bytes: Buffer;
}

/** Maximum number of characters of a field name that are kept to compare with `b64_json`. */
const nameLengthMax = 32;

/**
 * Scanner that finds and decodes the values of `b64_json` in a JSON text. It does not parse the
 * rest of the JSON.
 */
class PictureScanner {
  #mode: 'outside' | 'string' | 'picture' = 'outside';
  #isEscaped = false;
  #expectsPicture = false;
  #string = '';
  /**
   * Last Base64 characters of the previous chunk, which do not form complete bytes without the next
   * chunk.
   */
  #undecoded = '';
  #index = -1;

  /** True if the text that was scanned so far ends inside a picture. */
  get isInsidePicture(): boolean {
    return this.#mode === 'picture';
  }

  /** Scans the next chunk of the text, and yields the decoded pieces of pictures. */
  *scan(chunk: Buffer): Generator<PicturePiece> {
    const text = chunk.toString('latin1');
    let position = 0;
    while (position < text.length) {
      if (this.#mode === 'picture') {
        const quote = text.indexOf('"', position);
        const end = quote < 0 ? text.length : quote;
        yield* this.#decode(text.slice(position, end), quote >= 0);
        position = end + 1;
      } else {
        this.#step(text.charAt(position));
        position += 1;
      }
    }
  }

  *#decode(encoded: string, isEnd: boolean): Generator<PicturePiece> {
    // Of the Base64 characters, JSON may escape only the slash, so every backslash is removed.
    const base64 = this.#undecoded + encoded.replaceAll('\\', '');
    const decodableLength = isEnd ? base64.length : base64.length - (base64.length % 4);
    this.#undecoded = base64.slice(decodableLength);
    if (isEnd) this.#mode = 'outside';
    if (decodableLength > 0) {
      yield { index: this.#index, bytes: Buffer.from(base64.slice(0, decodableLength), 'base64') };
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

async function* readPieces(body: Readable): AsyncGenerator<PicturePiece> {
  const scanner = new PictureScanner();
  const chunks: AsyncIterable<Buffer> = body;
  for await (const chunk of chunks) yield* scanner.scan(chunk);
  if (scanner.isInsidePicture)
    throw new ProviderFailure('failed', 'the provider ended its response unexpectedly');
}

/**
 * Returns a stream for each of the first `count` pictures of a response. The stream of a missing
 * picture fails.
 */
export function streamPictures(body: Readable, count: number): ProviderOutput[] {
  const pieces = readPieces(body);
  let nextPiece: PicturePiece | undefined;

  async function* readPicture(
    index: number,
    previousClosed: Promise<void>,
  ): AsyncGenerator<Buffer> {
    await previousClosed;
    let hasPieces = false;
    for (;;) {
      const piece = nextPiece ?? (await pieces.next()).value;
      nextPiece = undefined;
      // The piece belongs to an earlier picture whose reader has stopped, so it is skipped.
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

  let previousClosed = Promise.resolve();
  return Array.from({ length: count }, (_, index): ProviderOutput => {
    const stream = Readable.from(readPicture(index, previousClosed), { objectMode: false });
    // The next picture is read after the stream of this picture has closed, also if it has failed.
    previousClosed = new Promise((resolve) => {
      stream.once('close', resolve);
    });
    if (index === count - 1) void previousClosed.then(() => body.on('error', () => {}).destroy());
    return { kind: 'stream', stream };
  });
}
