/**
 * Video and sound files that keep a parser busy or fill its memory; the event loop continues to
 * serve requests.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { createFileSource } from '../../storage/byte-source.ts';
import { readMedia, timeoutMs } from '../../storage/media-reader.ts';
import { newFolder } from '../harness/folders.ts';

const megabyte = 1024 * 1024;

const directory = newFolder();

const words = (...values: number[]): Buffer => {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [at, value] of values.entries()) bytes.writeUInt32BE(value, at * 4);
  return bytes;
};
const box = (name: string, ...contents: Buffer[]): Buffer => {
  const bytes = Buffer.concat(contents);
  return Buffer.concat([words(bytes.length + 8), Buffer.from(name, 'latin1'), bytes]);
};

interface Tables {
  /** Times of the samples (stts), without the number of entries. */
  times: Buffer;
  /** Size of all samples; 0 if `sizes` has one for each. */
  size: number;
  sizes: Buffer;
  samples: number;
  /** Units of time per second. */
  timescale?: number;
  width?: number;
}

/** Makes an MP4 whose video track has these sample tables. */
function mp4({ times, size, sizes, samples, timescale = 1000, width = 320 }: Tables): Buffer {
  const sps = Buffer.from([1, 0x42, 0, 0x1e, 0xff, 0xe1, 0, 4, 0x67, 0x42, 0, 0x1e, 1, 0, 2, 0x68]);
  const codec = box('avcC', sps, Buffer.from([0xce]));
  const entry = box(
    'avc1',
    Buffer.from([0, 0, 0, 0, 0, 0, 0, 1]),
    Buffer.alloc(16),
    words((width << 16) | 180, 0x480000, 0x480000, 0, 0x10000),
    Buffer.alloc(30),
    Buffer.from([0, 24, 0xff, 0xff]),
    codec,
  );
  const table = box(
    'stbl',
    box('stsd', words(0, 1), entry),
    box('stts', words(0, times.length / 8), times),
    box('stsz', words(0, size, samples), sizes),
    box('stsc', words(0, 1, 1, samples, 1)),
    box('stco', words(0, 1, 48)),
  );
  const matrix = words(0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000);
  const track = box(
    'trak',
    box('tkhd', words(7, 0, 0, 1, 0, 1000, 0, 0, 0, 0), matrix, words(width << 16, 180 << 16)),
    box(
      'mdia',
      box('mdhd', words(0, 0, 0, timescale, samples, 0x55c40000)),
      box('hdlr', words(0, 0), Buffer.from('vide'), Buffer.alloc(12), Buffer.from('x\0')),
      box('minf', box('vmhd', words(1, 0, 0)), table),
    ),
  );
  const movie = box('mvhd', words(0, 0, 0, 1000, 1000, 0x10000), Buffer.alloc(76), words(2));
  return Buffer.concat([
    box('ftyp', Buffer.from('isom'), words(0), Buffer.from('isommp42')),
    box('moov', movie, track),
    box('mdat', Buffer.alloc(100)),
  ]);
}

/** Makes an MP4 with an index of 12 bytes for each sample. */
const indexed = (samples: number): Buffer =>
  mp4({
    times: Buffer.alloc(8 * samples, words(1, 1, 1, 2)),
    size: 0,
    sizes: Buffer.alloc(4 * samples, words(1)),
    samples,
  });
const bombs: [string, () => Buffer][] = [
  ['an index of 150 MB', () => indexed(12_000_000)],
  ['an index of 15 MB', () => indexed(1_200_000)],
  [
    'one entry for four billion samples',
    () => mp4({ times: words(0xffffffff, 1), size: 1, sizes: words(), samples: 0xffffffff }),
  ],
  [
    'sound of a million frames',
    () => Buffer.alloc(72 * megabyte, Buffer.concat([words(0xffe318c4), Buffer.alloc(68)])),
  ],
];

/** Measures the longest delay of the event loop, in milliseconds. */
async function longestDelay(run: () => Promise<unknown>): Promise<number> {
  const delays = monitorEventLoopDelay({ resolution: 5 });
  delays.enable();
  await run();
  delays.disable();
  return delays.max / 1e6;
}

describe('a malicious media container', () => {
  it.each(bombs)('does not delay the event loop or fill the memory: %s', async (name, make) => {
    const path = join(directory, name.replaceAll(' ', '-'));
    await writeFile(path, make());
    await readMedia(createFileSource(path)).catch(() => null);
    const before = process.memoryUsage.rss();
    let most = 0;
    const watching = setInterval(() => {
      most = Math.max(most, process.memoryUsage.rss() - before);
    }, 10);
    const delayMs = await longestDelay(() => readMedia(createFileSource(path)));
    clearInterval(watching);
    expect(delayMs).toBeLessThan(1000);
    expect(most).toBeLessThan(500 * megabyte);
  });

  const second = {
    times: Buffer.alloc(8 * 10, words(1, 100)),
    size: 0,
    sizes: words(...Array<number>(10).fill(1)),
    samples: 10,
  };

  it.each([
    ['an undefined duration', { timescale: 0 }],
    ['no width', { width: 0 }],
  ])('is not readable with %s', async (_what, changes) => {
    const path = join(directory, 'undefined.mp4');
    await writeFile(path, mp4({ ...second, ...changes }));
    expect(await readMedia(createFileSource(path))).toMatchObject({ kind: 'refused' });
  });

  it('does not affect the next file', async () => {
    const path = join(directory, 'small.mp4');
    await writeFile(path, mp4(second));
    const begun = vi.spyOn(globalThis, 'setTimeout');
    const ended = vi.spyOn(globalThis, 'clearTimeout');
    onTestFinished(() => void vi.restoreAllMocks());
    const films = await Promise.all(
      Array.from({ length: 9 }, () => readMedia(createFileSource(path))),
    );
    for (const film of films) {
      expect(film).toMatchObject({ video: { width: 320, height: 180, durationSeconds: 1 } });
    }
    // No time limit is left to end a thread that reads another file.
    const limits = begun.mock.results
      .filter((_, index) => begun.mock.calls[index]?.[1] === timeoutMs)
      .map(({ value }) => value);
    expect(limits).toHaveLength(films.length);
    expect(ended.mock.calls.map(([timer]) => timer)).toEqual(expect.arrayContaining(limits));
  });
});
