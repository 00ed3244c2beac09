/**
 * Decompression bombs: small images and videos that claim, or expand to, a huge size. The gateway
 * checks a provider’s result and a caller’s input on arrival, and they must use neither memory nor
 * time.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { measureInput } from '../../storage/media-types.ts';
import { probeMedia } from '../../storage/probe.ts';
import { newFolder, openTestDisk } from '../harness/folders.ts';
import { drawDisc } from '../harness/media.ts';

const magic = Buffer.from('89504e470d0a1a0a', 'hex');
function chunk(name: string, data: Buffer = Buffer.alloc(0)): Buffer {
  const content = Buffer.concat([Buffer.from(name, 'latin1'), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(content));
  return Buffer.concat([length, content, sum]);
}
function header(width: number, height: number, depth = 8, color = 2): Buffer {
  const data = Buffer.alloc(13);
  data.writeUInt32BE(width, 0);
  data.writeUInt32BE(height, 4);
  data.writeUInt8(depth, 8);
  data.writeUInt8(color, 9);
  return chunk('IHDR', data);
}
const quick = { level: 1 };
/** Defers the making, because hundreds of megabytes take seconds to compress. */
function once(make: () => Buffer): () => Buffer {
  let made: Buffer | undefined;
  return () => (made ??= make());
}
const zeros = (megabytes: number): Buffer =>
  deflateSync(Buffer.alloc(megabytes * 1024 * 1024), quick);
const png = (...chunks: Buffer[]): Buffer => Buffer.concat([magic, ...chunks, chunk('IEND')]);
const pngWith = (name: string, compressed: Buffer): Buffer => {
  const named = Buffer.concat([Buffer.from('a\0\0'), compressed]);
  return png(header(8, 8), chunk(name, named), chunk('IDAT', Buffer.alloc(9)));
};
const makeJpeg = (width: number, height: number): Buffer => {
  const frame = Buffer.from('ffc00011080000000003012200021101031101', 'hex');
  frame.writeUInt16BE(height, 5);
  frame.writeUInt16BE(width, 7);
  return Buffer.concat([Buffer.from('ffd8', 'hex'), frame, Buffer.from('ffd9', 'hex')]);
};
const makeWebp = (width: number, height: number): Buffer => {
  const extended = Buffer.alloc(10);
  extended.writeUIntLE(width - 1, 4, 3);
  extended.writeUIntLE(height - 1, 7, 3);
  const body = Buffer.concat([Buffer.from('WEBPVP8X'), Buffer.from([10, 0, 0, 0]), extended]);
  const size = Buffer.alloc(4);
  size.writeUInt32LE(body.length);
  return Buffer.concat([Buffer.from('RIFF'), size, body]);
};
const makeGif = (width: number, height: number): Buffer => {
  const screen = Buffer.alloc(7);
  screen.writeUInt16LE(width, 0);
  screen.writeUInt16LE(height, 2);
  return Buffer.concat([Buffer.from('GIF89a'), screen, Buffer.from([0x3b])]);
};
const laughs = `<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY a "${'x'.repeat(1000)}">${'bcdefgh'
  .split('')
  .map((name, at) => `<!ENTITY ${name} "${`&${'abcdefg'[at]};`.repeat(20)}">`)
  .join('')}]><svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><text>&h;</text></svg>`;

const reading =
  '<svg xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink" width="9" height="9"><image x:href="file:///etc/passwd"/></svg>';

const bombs = (
  [
    ['a PNG of 50,000 × 50,000', () => png(header(50_000, 50_000), chunk('IDAT', zeros(1)))],
    ['a PNG of 2 billion × 1', () => png(header(2_147_483_647, 1), chunk('IDAT', zeros(1)))],
    ['a PNG of 0 × 0', () => png(header(0, 0), chunk('IDAT', zeros(1)))],
    ['a PNG one row over the limit', () => png(header(8000, 8001), chunk('IDAT', zeros(184)))],
    ['a PNG whose text unpacks to 200 MB', () => pngWith('zTXt', zeros(200))],
    ['a PNG whose profile unpacks to 200 MB', () => pngWith('iCCP', zeros(200))],
    [
      'a PNG with 100,000 chunks',
      () => png(header(8, 8), ...Array<Buffer>(100_000).fill(chunk('tEXt', Buffer.from('a\0b')))),
    ],
    ['a JPEG of 65,500 × 65,500', () => makeJpeg(65_500, 65_500)],
    ['a WebP of 16,383 × 16,383', () => makeWebp(16_383, 16_383)],
    ['a WebP of 16 million × 16 million', () => makeWebp(16_777_216, 16_777_216)],
    ['a GIF of 65,535 × 65,535', () => makeGif(65_535, 65_535)],
    ['an SVG', () => Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')],
    ['an SVG of a billion laughs', () => Buffer.from(laughs)],
    ['an SVG that reads a file', () => Buffer.from(reading)],
    ['a compressed SVG', () => gzipSync(laughs)],
    ['a TIFF', () => Buffer.from('49492a0008000000', 'hex')],
    ['a PDF', () => Buffer.from('%PDF-1.7\n')],
    ['gzip of 300 MB', () => gzipSync(Buffer.alloc(300 * 1024 * 1024), quick)],
    ['nothing', () => Buffer.alloc(0)],
    ['a magic and no more', () => magic],
  ] as [string, () => Buffer][]
).map(([what, make]) => [what, once(make)] as const);

const directory = newFolder();

/** Expects that a function takes little memory, and little CPU of all threads. */
async function expectCheap(run: () => Promise<unknown>): Promise<void> {
  const before = process.memoryUsage().rss;
  let most = before;
  const look = setInterval(() => (most = Math.max(most, process.memoryUsage().rss)), 5);
  const cpu = process.cpuUsage();
  await run();
  clearInterval(look);
  most = Math.max(most, process.memoryUsage().rss);
  const { user, system } = process.cpuUsage(cpu);
  expect(most - before).toBeLessThan(160 * 1024 * 1024);
  expect((user + system) / 1000).toBeLessThan(5000);
}

/** Stores bytes; returns the storage and their key. */
async function stored(bytes: Buffer) {
  const storage = await openTestDisk(join(directory, 'storage'));
  const key = `${newId('organization')}/${newId('upload')}.png`;
  const path = await storage.spoolPath();
  await writeFile(path, bytes);
  await storage.put(key, path);
  return { storage, key };
}

describe('a decompression bomb', () => {
  it.each(bombs)('is rejected as a provider’s result: %s', async (_what, make) => {
    const path = join(directory, 'result');
    await writeFile(path, make());
    await expectCheap(() =>
      expect(probeMedia(path, 'image')).rejects.toMatchObject({ name: 'ProviderFailure' }),
    );
  });

  it.each(bombs)(
    'is rejected as a caller’s input without memory or time: %s',
    async (_what, make) => {
      const { storage, key } = await stored(make());
      await expectCheap(async () => {
        // Only a picture whose metadata is a bomb is accepted: nothing unpacks the metadata.
        const facts = await measureInput(storage, key, 'image').catch((error: Error) => error);
        if (!(facts instanceof Error)) expect(facts).toMatchObject({ width: 8, height: 8 });
        else expect(facts).toMatchObject({ name: 'UnusableFile' });
      });
    },
  );

  it('is not confused with an ordinary image', async () => {
    const picture = await drawDisc(64, 32);
    const path = join(directory, 'result');
    await writeFile(path, picture);
    expect(await probeMedia(path, 'image')).toMatchObject({ width: 64, height: 32 });
    const { storage, key } = await stored(picture);
    expect(await measureInput(storage, key, 'image')).toMatchObject({ width: 64 });
  });
});
