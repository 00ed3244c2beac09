/** The record of an artifact matches its stored bytes, also after an earlier attempt. */
import { createHash } from 'node:crypto';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { createArtifactStore, type ArtifactStore } from '../../storage/artifacts.ts';
import type { LocalDisk } from '../../storage/local-disk.ts';
import { newId } from '../../domain/ids.ts';
import { OutboundError, createOutbound } from '../../platform/outbound.ts';
import { newFolder, openTestDisk } from '../harness/folders.ts';
import { readPixels } from '../harness/media.ts';

const directory = newFolder();
const outbound = createOutbound({ admittedOrigins: [] });
let storage: LocalDisk;
let artifacts: ArtifactStore;
beforeAll(async () => {
  storage = await openTestDisk(directory);
  artifacts = createArtifactStore({ storage, outbound, marksOutputs: true });
});

const picture = (width: number) =>
  sharp({ create: { width, height: 20, channels: 3, background: '#3366cc' } })
    .png()
    .toBuffer();
const mark = { model: 'a-model', hasCallerMedia: false };
const newPlace = () => {
  const ids = { organizationId: newId('organization'), jobId: newId('job') };
  return { ...ids, callIndex: 0, outputIndex: 0 };
};
const store = (
  bytes: Buffer,
  place: ReturnType<typeof newPlace>,
  format: 'png' | 'webp' | 'jpeg' | null = 'png',
  to = artifacts,
) =>
  to.store(
    { kind: 'stream', stream: Readable.from([bytes]) },
    { output: { medium: 'image', format }, place, mark, signal: AbortSignal.timeout(10_000) },
  );

async function expectRecorded(artifact: Awaited<ReturnType<typeof store>>) {
  const object = await storage.open(artifact.storageKey);
  const bytes = await buffer(object?.stream ?? Readable.from([]));
  expect(artifact.sha256).toBe(createHash('sha256').update(bytes).digest('hex'));
  expect(artifact.sizeBytes).toBe(bytes.length);
  expect(artifact.width).toBe((await sharp(bytes).metadata()).width);
  expect(await readdir(join(directory, 'spool'))).toEqual([]);
}

describe('an artifact', () => {
  it('has a record that matches its bytes, also after attempts that store the same or other bytes', async () => {
    const place = newPlace();
    const first = await store(await picture(40), place);
    await expectRecorded(first);
    for (const width of [40, 50]) {
      expect(await store(await picture(width), place)).toEqual(first);
      await expectRecorded(first);
    }
  });

  it.each(
    ([3, 6, 8] as const).flatMap((orientation) =>
      (['png', 'webp', 'jpeg', null] as const).map((format) => [orientation, format] as const),
    ),
  )(
    'of a turned picture (%i) is upright as %s, and so are its width and height',
    async (orientation, format) => {
      const red = { width: 20, height: 15, channels: 3, background: '#f00' } as const;
      const stored = await sharp({ create: { ...red, width: 40, height: 30, background: '#00f' } })
        .composite([{ input: { create: red }, left: 0, top: 0 }])
        .jpeg()
        .withMetadata({ orientation })
        .toBuffer();
      const expected = await readPixels(await sharp(stored).autoOrient().png().toBuffer());
      const artifact = await store(stored, newPlace(), format);
      const object = await storage.open(artifact.storageKey);
      const bytes = await buffer(object?.stream ?? Readable.from([]));
      const shown = await readPixels(await sharp(bytes).autoOrient().png().toBuffer());
      const { width, height } = expected;
      expect([artifact.width, artifact.height]).toEqual([width, height]);
      expect([shown.width, shown.height]).toEqual([width, height]);
      for (const [x, y] of [
        [2, 2],
        [width - 3, 2],
        [2, height - 3],
      ] as const) {
        const isRed = (pixels: typeof shown) => pixels.at(x, y)[0] > 128;
        expect(isRed(shown), `${x}, ${y}`).toBe(isRed(expected));
      }
      // A converted file holds upright pixels, for programs that ignore the orientation.
      if (format === 'png' || format === 'webp') {
        expect(await sharp(bytes).metadata()).toMatchObject({ width, height });
      }
    },
  );

  it('fails as a failure of the storage if it cannot be converted, and leaves no file', async () => {
    const full = createArtifactStore({
      // Only the first path can be written, as on a disk that is full afterwards.
      storage: { ...storage, spoolPath: () => Promise.resolve(paths.shift() ?? '') },
      outbound,
      marksOutputs: true,
    });
    const paths = [await storage.spoolPath(), join(directory, 'missing', 'file')];
    const stored = store(await picture(40), newPlace(), 'webp', full);
    await expect(stored).rejects.toMatchObject({ name: 'StorageFailure', retryable: false });
    expect(await readdir(join(directory, 'spool'))).toEqual([]);
  });

  it.each([
    [500, 'StorageFailure'],
    [429, 'StorageFailure'],
    [404, 'ProviderFailure'],
  ])('at a URL that responds with %i fails with a %s', async (status, name) => {
    const fetch = () => Promise.reject(new OutboundError('status', 'no file', status));
    const away = createArtifactStore({
      storage,
      outbound: { ...outbound, fetch },
      marksOutputs: true,
    });
    const output = { medium: 'image', format: null } as const;
    const options = { output, place: newPlace(), mark, signal: AbortSignal.timeout(10_000) };
    const stored = away.store({ kind: 'url', url: 'https://files.example/' }, options);
    await expect(stored).rejects.toMatchObject({ name });
  });

  it('is rejected if its key already holds an object of another type', async () => {
    const place = newPlace();
    const key = `${place.organizationId}/${place.jobId}/0-0.png`;
    const path = await storage.spoolPath();
    await writeFile(path, 'no picture');
    await storage.put(key, path);
    await expect(store(await picture(50), place)).rejects.toThrow('is not a readable image file');
  });
});
