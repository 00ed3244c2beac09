/**
 * Artifact store: turns the output of a provider into a stored artifact. The output is streamed to
 * a spool file, probed, converted if the request names another format, hashed and stored. The
 * memory used does not depend on the size.
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

/** Output of a provider: a URL to read, or a stream of the bytes. */
export type ProviderOutput = { kind: 'url'; url: string } | { kind: 'stream'; stream: Readable };

/** Error of the storage while an artifact is written or read. */
export class StorageFailure extends Error {
  override readonly name = 'StorageFailure';
  /**
   * False if the provider's bytes are lost, because a repeated call would be paid for a second
   * time.
   */
  readonly retryable: boolean;

  constructor(message: string, options: { retryable: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.retryable = options.retryable;
  }
}

/** Position of an artifact: organization, job, call of the job and output of the call. */
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

/** Maximum size of an output in bytes, by medium. */
const bytesMax: Record<OutputSpec['medium'], number> = {
  image: 100 * 1024 * 1024,
  audio: 200 * 1024 * 1024,
  video: 1024 * 1024 * 1024,
  json: 16 * 1024 * 1024,
};
const fetchTimeoutMs = 120_000;
/** Retries of a write whose bytes the provider does not send again: about 20 seconds in total. */
const putRetries = { retries: 5, minTimeout: 200, factor: 3, maxTimeout: 12_000 };

/** Makes the artifact store; `outbound` reads the URLs of providers. */
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
      return await pRetry(
        () => deps.storage.put(key, path),
        retryable ? { retries: 0 } : putRetries,
      );
    } catch (cause) {
      throw new StorageFailure('the storage did not accept the object', { retryable, cause });
    }
  }

  async function keep(spooled: Spooled, options: StoreOptions, retryable: boolean) {
    const { extension: detected, ...facts } = await probeMedia(spooled.path, options.output.medium);
    const extension = extensionOf(options.output) ?? detected;
    const file =
      extension === detected ? spooled : await convert(deps.storage, spooled.path, extension);
    try {
      const { organizationId, jobId, callIndex, outputIndex } = options.place;
      const storageKey = `${organizationId}/${jobId}/${callIndex}-${outputIndex}.${extension}`;
      const contentType = contentTypeOf(storageKey);
      if ((await put(storageKey, file.path, retryable)) === 'exists') {
        const stored = await describe(deps.storage, storageKey, { ...options.output, retryable });
        return { storageKey, contentType, ...stored };
      }
      const { sizeBytes, sha256 } = file;
      return { storageKey, contentType, sizeBytes, sha256, ...facts };
    } finally {
      if (file !== spooled) await rm(file.path, { force: true });
    }
  }

  return {
    /**
     * Stores an output and returns its description. If an earlier attempt stored the artifact, that
     * one is described.
     * @throws StorageFailure; retryable if the provider's URL could not be read to its end
     * @throws ProviderFailure `failed` if the bytes are unusable
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

/**
 * Describes the object that an earlier attempt stored. That object is not replaced, so the job's
 * result describes it and not the bytes of this attempt.
 * @throws StorageFailure
 */
async function describe(
  storage: Storage,
  storageKey: string,
  { medium, retryable }: OutputSpec & { retryable: boolean },
) {
  const object = await storage.open(storageKey).catch((cause: unknown) => {
    throw new StorageFailure('the object cannot be read', { retryable, cause });
  });
  if (!object) throw new StorageFailure('the object no longer exists', { retryable });
  const { path, ...digest } = await spool(object.stream, storage, retryable);
  try {
    const { width, height, durationSeconds, hasAudio } = await probeMedia(path, medium);
    return { ...digest, width, height, durationSeconds, hasAudio };
  } finally {
    await rm(path, { force: true });
  }
}

/** File in the spool that is not stored yet. */
interface Spooled extends Digest {
  path: string;
}

/**
 * Passes the bytes of a stream on, up to a limit. The outbound fetch limits the bytes of a URL too.
 * @throws ProviderFailure `failed` if the stream has more bytes
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
  let sourceError: unknown;
  source.once('error', (error) => {
    sourceError = error;
  });
  let path: string | undefined;
  try {
    path = await storage.spoolPath();
    return { path, ...(await writeSpoolFile(path, source)) };
  } catch (cause) {
    source.destroy();
    if (path !== undefined) await rm(path, { force: true });
    if (sourceError instanceof ProviderFailure) throw sourceError;
    if (sourceError === undefined) {
      throw new StorageFailure('the spool file could not be written', { retryable, cause });
    }
    // The provider sends this stream only once, so the rest of the output cannot be read again.
    if (!retryable)
      throw new ProviderFailure('failed', 'the provider ended its response unexpectedly', {
        cause,
      });
    throw failureOfSource(sourceError);
  }
}

/** Returns the file extension of the requested format; null if the request names none. */
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

/** Makes the failure of a URL that could not be read to its end; another attempt may read it. */
function failureOfSource(error: unknown): ProviderFailure | StorageFailure {
  if (
    error instanceof OutboundError &&
    error.reason !== 'unreachable' &&
    error.reason !== 'broken'
  ) {
    const isTemporary = error.reason === 'status' && (error.status ?? 0) >= 500;
    if (!isTemporary) {
      return new ProviderFailure(
        'failed',
        `the provider's output cannot be read: ${error.message}`,
      );
    }
  }
  return new StorageFailure('the provider’s output could not be downloaded', {
    retryable: true,
    cause: error,
  });
}

/** Adds a tracing span around `store`, with content type and size of the artifact. */
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
