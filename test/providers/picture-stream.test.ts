import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { array, assert, asyncProperty, integer } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { streamPictures } from '../../providers/openai/picture-stream.ts';
import type { ProviderOutput } from '../../storage/provider-output.ts';

const pictures = [randomBytes(1), randomBytes(4098), Buffer.alloc(0), randomBytes(70_001)];
const answer = (extra: object = {}): string =>
  JSON.stringify({
    created: 1,
    note: 'a "b64_json": "AAAA" that is only text \\',
    data: pictures.map((bytes) => ({
      revised_prompt: 'b64_json',
      b64_json: bytes.toString('base64'),
    })),
    usage: { b64_json: null, total_tokens: 3 },
    ...extra,
  });

function inPieces(text: string, sizes: readonly number[]): Readable {
  function* pieces(): Generator<Buffer> {
    const bytes = Buffer.from(text);
    for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
      const size = sizes[turn % sizes.length] ?? 1;
      yield bytes.subarray(at, at + size);
      at += size;
    }
  }
  return Readable.from(pieces(), { objectMode: false });
}

const read = async (output: ProviderOutput | undefined): Promise<Buffer> => {
  if (output?.kind !== 'stream') throw new Error('pictures come as streams');
  return buffer(output.stream);
};

/** Reads all outputs at the same time, as `storeResult` does; null for a failed output. */
const readAll = (outputs: ProviderOutput[]): Promise<(Buffer | null)[]> =>
  Promise.all(outputs.map((output) => read(output).catch(() => null)));

describe('the images of a streamed Images API response', () => {
  // An empty picture counts as missing.
  const expected = [pictures[0], pictures[1], null, pictures[3]];

  it('are complete, however the response is split into chunks', async () => {
    await assert(
      asyncProperty(
        array(integer({ min: 1, max: 9000 }), { minLength: 1, maxLength: 6 }),
        async (sizes) => {
          expect(await readAll(streamPictures(inPieces(answer(), sizes), 4))).toEqual(expected);
        },
      ),
      { numRuns: 30 },
    );
  });

  it('are read from JSON with escaped slashes', async () => {
    const escaped = answer().replaceAll('/', '\\/');
    expect(await readAll(streamPictures(inPieces(escaped, [333]), 4))).toEqual(expected);
  });

  it('are read although the reader of an earlier image stopped', async () => {
    const [first, second] = streamPictures(inPieces(answer(), [1000]), 2);
    if (first?.kind === 'stream') first.stream.destroy();
    expect(await read(second)).toEqual(pictures[1]);
  });

  it('fail from the point at which the response breaks off', async () => {
    const outputs = streamPictures(inPieces(answer().slice(0, 3000), [512]), 3);
    const reads = outputs.map(read);
    await Promise.all([
      expect(reads[0]).resolves.toEqual(pictures[0]),
      expect(reads[1]).rejects.toThrow('ended its response unexpectedly'),
      expect(reads[2]).rejects.toThrow('fewer'),
    ]);
  });
});
