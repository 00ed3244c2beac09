/**
 * Provider output → artifact: streamed to a spool file, looked at, converted when the caller was
 * promised another format, hashed and stored. Memory stays flat whatever the size.
 */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import sharp from 'sharp';
import { OutboundError, type Outbound } from '../../platform/outbound.ts';
import type { OutputSpec, StoredArtifact } from '../../studio/job-plan.ts';
import { ProviderFailure, type ProviderOutput } from '../providers/provider.ts';
import { contentTypes, type Storage } from './storage.ts';

/** The storage did not take the bytes; trying again may help. */
export class StorageFailure extends Error {
  override readonly name = 'StorageFailure';
}

/** Names the place of an artifact. */
export interface ArtifactPlace {
  organizationId: string;
  jobId: string;
  callIndex: number;
  outputIndex: number;
}

interface StoreOptions {
  output: OutputSpec;
  place: ArtifactPlace;
  signal: AbortSignal;
}

/** Stores provider outputs. */
export interface ArtifactStore {
  /** @throws StorageFailure, ProviderFailure (`failed` for unusable bytes, `unreachable` to try again) */
  store: (output: ProviderOutput, options: StoreOptions) => Promise<StoredArtifact>;
}

/** Bytes an output may have, by medium. */
const bytesMax: Record<OutputSpec['medium'], number> = {
  image: 100 * 1024 * 1024,
  audio: 200 * 1024 * 1024,
  video: 1024 * 1024 * 1024,
  json: 16 * 1024 * 1024,
};
const fetchTimeoutMs = 120_000;
/** No picture of ours has more; a decompression bomb claims to. */
const pixelsMax = 64_000_000;
const extensions: Record<string, string> = { png: 'png', jpeg: 'jpg', webp: 'webp' };

/** The store over a storage and the guarded fetch. */
export function createArtifactStore(deps: { storage: Storage; outbound: Outbound }): ArtifactStore {
  async function spool(source: Readable): Promise<string> {
    let path: string;
    try {
      path = await deps.storage.spoolPath();
    } catch (error) {
      throw new StorageFailure('no room to spool', { cause: error });
    }
    let broken: unknown;
    source.once('error', (error) => {
      broken = error;
    });
    try {
      await pipeline(source, createWriteStream(path, { flags: 'wx' }));
      return path;
    } catch (error) {
      await rm(path, { force: true });
      if (broken) throw failureOfSource(broken);
      throw new StorageFailure('the spool file could not be written', { cause: error });
    }
  }

  async function fetchOutput(output: ProviderOutput, options: StoreOptions): Promise<Readable> {
    if (output.kind === 'stream') return output.stream;
    try {
      const limits = {
        bytesMax: bytesMax[options.output.medium],
        timeoutMs: fetchTimeoutMs,
        signal: options.signal,
      };
      return (await deps.outbound.fetch(output.url, limits)).body;
    } catch (error) {
      throw failureOfSource(error);
    }
  }

  async function keep(path: string, options: StoreOptions): Promise<StoredArtifact> {
    const picture = await readPicture(path);
    const format = options.output.format ?? picture.format;
    const converted =
      format === picture.format ? path : await convert(path, { format, storage: deps.storage });
    const { organizationId, jobId, callIndex, outputIndex } = options.place;
    const extension = extensions[format] ?? format;
    const storageKey = `${organizationId}/${jobId}/${callIndex}-${outputIndex}.${extension}`;
    const digest = await digestOf(converted);
    try {
      await deps.storage.put(storageKey, converted);
    } catch (error) {
      throw new StorageFailure('the storage did not take the object', { cause: error });
    } finally {
      await rm(path, { force: true });
      await rm(converted, { force: true });
    }
    return {
      storageKey,
      contentType: contentTypes[extension] ?? 'application/octet-stream',
      ...digest,
      width: picture.width,
      height: picture.height,
      durationSeconds: null,
    };
  }

  return {
    async store(output, options) {
      const path = await spool(await fetchOutput(output, options));
      return keep(path, options);
    },
  };
}

interface Picture {
  format: 'png' | 'jpeg' | 'webp';
  width: number;
  height: number;
}

/** Reads the header of a picture and decodes it once: what is charged for can be opened. */
async function readPicture(path: string): Promise<Picture> {
  try {
    const image = sharp(path, { limitInputPixels: pixelsMax, failOn: 'error' });
    const { format, width, height } = await image.metadata();
    if ((format === 'png' || format === 'jpeg' || format === 'webp') && width && height) {
      // Sampling the last row needs all before it, so a truncated file fails here, not at the customer's.
      await image
        .resize(8, 8, { fit: 'fill', kernel: 'nearest', fastShrinkOnLoad: false })
        .raw()
        .toBuffer();
      return { format, width, height };
    }
  } catch {
    // Falls through: whatever the decoder says, the bytes are not a picture we can hand on.
  }
  await rm(path, { force: true });
  throw new ProviderFailure('failed', 'the provider delivered something that is not a picture');
}

async function convert(
  path: string,
  options: { format: Picture['format']; storage: Storage },
): Promise<string> {
  const target = await options.storage.spoolPath();
  await sharp(path, { limitInputPixels: pixelsMax })
    .flatten(options.format === 'jpeg' ? { background: '#ffffff' } : false)
    .toFormat(options.format)
    .toFile(target);
  return target;
}

async function digestOf(path: string): Promise<{ sizeBytes: number; sha256: string }> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    hash.update(chunk);
  }
  return { sizeBytes, sha256: hash.digest('hex') };
}

function failureOfSource(error: unknown): ProviderFailure {
  if (
    error instanceof OutboundError &&
    error.reason !== 'unreachable' &&
    error.reason !== 'broken'
  ) {
    const gone = error.reason === 'status' && (error.status ?? 0) >= 500;
    if (!gone) {
      return new ProviderFailure(
        'failed',
        `the provider's output cannot be read: ${error.message}`,
      );
    }
  }
  return new ProviderFailure('unreachable', 'the output of the provider broke off', {
    cause: error,
  });
}
