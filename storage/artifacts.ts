/**
 * Storage of provider outputs as artifacts: streamed to a spool file, probed, converted if the
 * caller requested another format, hashed and stored. Memory use does not depend on the size.
 */
import { SpanKind } from '@opentelemetry/api';
import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import pRetry from 'p-retry';
import sharp from 'sharp';
import { OutboundError, type Outbound } from '../platform/outbound.ts';
import { inSpan } from '../platform/telemetry.ts';
import type { OutputSpec, StoredArtifact } from '../jobs/job-plan.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';
import { pixelsMax, probeMedia } from './media.ts';
import { digestOf, writeSpoolFile, type Digest } from './spool.ts';
import { contentTypeOf, type Storage } from './storage.ts';

/** Output of a provider: a URL to read, or the bytes. */
export type ProviderOutput = { kind: 'url'; url: string } | { kind: 'stream'; stream: Readable };

/** A failed write to the storage. */
export class StorageFailure extends Error {
  override readonly name = 'StorageFailure';
  /**
   * False if the provider's bytes are lost with the failure, because another request would be paid
   * again.
   */
  readonly retryable: boolean;

  constructor(message: string, options: { retryable: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.retryable = options.retryable;
  }
}

/** Place of an artifact in a job. */
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

/** Largest output in bytes, by medium. */
const bytesMax: Record<OutputSpec['medium'], number> = {
  image: 100 * 1024 * 1024,
  audio: 200 * 1024 * 1024,
  video: 1024 * 1024 * 1024,
  json: 16 * 1024 * 1024,
};
const fetchTimeoutMs = 120_000;
/** Retries for bytes that cannot be requested again: about 20 seconds. */
const putAgain = { retries: 5, minTimeout: 200, factor: 3, maxTimeout: 12_000 };

/** Makes the artifact store over a storage and the guarded fetch. */
export function createArtifactStore(deps: { storage: Storage; outbound: Outbound }) {
  async function open(output: ProviderOutput, options: StoreOptions): Promise<Readable> {
    if (output.kind === 'stream') return output.stream;
    try {
      const limits = {
        bytesMax: bytesMax[options.output.medium],
        timeoutMs: fetchTimeoutMs,
        signal: options.signal,
      };
      return await deps.outbound.fetch(output.url, limits);
    } catch (error) {
      throw failureOfSource(error);
    }
  }

  async function put(key: string, path: string, retryable: boolean): Promise<'stored' | 'exists'> {
    try {
      return await pRetry(() => deps.storage.put(key, path), retryable ? { retries: 0 } : putAgain);
    } catch (cause) {
      throw new StorageFailure('the storage did not take the object', { retryable, cause });
    }
  }

  async function keep(spooled: Spooled, options: StoreOptions, retryable: boolean) {
    const { extension: found, ...facts } = await probeMedia(spooled.path, options.output.medium);
    const extension = extensionOf(options.output) ?? found;
    const kept =
      extension === found ? spooled : await convert(deps.storage, spooled.path, extension);
    try {
      const { organizationId, jobId, callIndex, outputIndex } = options.place;
      const storageKey = `${organizationId}/${jobId}/${callIndex}-${outputIndex}.${extension}`;
      const contentType = contentTypeOf(storageKey);
      if ((await put(storageKey, kept.path, retryable)) === 'exists') {
        const stored = await describe(deps.storage, storageKey, { ...options.output, retryable });
        return { storageKey, contentType, ...stored };
      }
      const { sizeBytes, sha256 } = kept;
      return { storageKey, contentType, sizeBytes, sha256, ...facts };
    } finally {
      if (kept !== spooled) await rm(kept.path, { force: true });
    }
  }

  return {
    /**
     * Stores an output.
     * @throws StorageFailure; ProviderFailure (`failed` for unusable bytes, `unreachable` if a
     * retry may succeed)
     */
    store: async (output: ProviderOutput, options: StoreOptions): Promise<StoredArtifact> => {
      const retryable = output.kind === 'url';
      const source = capped(await open(output, options), bytesMax[options.output.medium]);
      const spooled = await spool(source, deps.storage, retryable);
      try {
        return await keep(spooled, options, retryable);
      } finally {
        await rm(spooled.path, { force: true });
      }
    },
  };
}
export type ArtifactStore = ReturnType<typeof createArtifactStore>;

/** An artifact of an earlier attempt stays, because the job's result describes it. */
async function describe(
  storage: Storage,
  storageKey: string,
  { medium, retryable }: OutputSpec & { retryable: boolean },
) {
  const object = await storage.open(storageKey).catch((cause: unknown) => {
    throw new StorageFailure('the object cannot be read', { retryable, cause });
  });
  if (!object) throw new StorageFailure('the object is gone', { retryable });
  const { path, ...digest } = await spool(object.stream, storage, retryable);
  try {
    const { width, height, durationSeconds, hasAudio } = await probeMedia(path, medium);
    return { ...digest, width, height, durationSeconds, hasAudio };
  } finally {
    await rm(path, { force: true });
  }
}

/** A file that is on its way into the storage. */
interface Spooled extends Digest {
  path: string;
}

/**
 * Limits the bytes of a provider's stream; those of a URL are limited by the guarded fetch as well.
 */
function capped(source: Readable, limitBytes: number): Readable {
  async function* counted(): AsyncGenerator<Buffer> {
    let sizeBytes = 0;
    const chunks: AsyncIterable<Buffer> = source;
    for await (const chunk of chunks) {
      sizeBytes += chunk.length;
      if (sizeBytes > limitBytes) {
        throw new ProviderFailure('failed', `the output has more than ${limitBytes} bytes`);
      }
      yield chunk;
    }
  }
  return Readable.from(counted(), { objectMode: false });
}

async function spool(source: Readable, storage: Storage, retryable: boolean): Promise<Spooled> {
  let broken: unknown;
  source.once('error', (error) => {
    broken = error;
  });
  let path: string | undefined;
  try {
    path = await storage.spoolPath();
    return { path, ...(await writeSpoolFile(path, source)) };
  } catch (cause) {
    source.destroy();
    if (path !== undefined) await rm(path, { force: true });
    if (broken instanceof ProviderFailure) throw broken;
    if (broken === undefined) {
      throw new StorageFailure('the spool file could not be written', { retryable, cause });
    }
    // If a provider responds only once, a result with missing outputs is not usable.
    if (!retryable)
      throw new ProviderFailure('failed', 'the provider ended its response unexpectedly', {
        cause,
      });
    throw failureOfSource(broken);
  }
}

/** Returns the file extension that the caller was promised. */
function extensionOf(output: OutputSpec): string | null {
  return output.format === 'jpeg' ? 'jpg' : output.format;
}

async function convert(storage: Storage, path: string, extension: string): Promise<Spooled> {
  const target = await storage.spoolPath();
  const format = extension === 'jpg' ? 'jpeg' : extension === 'webp' ? 'webp' : 'png';
  await sharp(path, { limitInputPixels: pixelsMax })
    .flatten(format === 'jpeg' ? { background: '#ffffff' } : false)
    .toFormat(format)
    .toFile(target);
  return { path: target, ...(await digestOf(createReadStream(target))) };
}

function failureOfSource(error: unknown): ProviderFailure {
  if (
    error instanceof OutboundError &&
    error.reason !== 'unreachable' &&
    error.reason !== 'broken'
  ) {
    const passing = error.reason === 'status' && (error.status ?? 0) >= 500;
    if (!passing) {
      return new ProviderFailure(
        'failed',
        `the provider's output cannot be read: ${error.message}`,
      );
    }
  }
  return new ProviderFailure('unreachable', 'the provider’s output ended unexpectedly', {
    cause: error,
  });
}

/** Traces the storage of artifacts. */
export function observeArtifacts(artifacts: ArtifactStore): ArtifactStore {
  return {
    ...artifacts,
    store: (output, options) =>
      inSpan({ name: 'storage.store', kind: SpanKind.CLIENT }, async (span) => {
        const stored = await artifacts.store(output, options);
        span.setAttributes({
          'artifact.type': stored.contentType,
          'artifact.bytes': stored.sizeBytes,
        });
        return stored;
      }),
  };
}
