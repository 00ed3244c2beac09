/**
 * Artifact store: turns the output of a provider into a stored artifact. The output is streamed to
 * a spool file, probed, converted if the request names another format, hashed and stored. The
 * memory used does not depend on the size.
 */
import { SpanKind } from '@opentelemetry/api';
import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import pRetry from 'p-retry';
import sharp from 'sharp';
import type { Outbound } from '../platform/outbound.ts';
import { inSpan } from '../platform/telemetry.ts';
import type { OutputSpec, StoredArtifact } from '../jobs/job-plan.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';
import { pixelsMax } from './media-types.ts';
import { probeMedia } from './probe.ts';
import { spoolOutput, type ProviderOutput } from './provider-output.ts';
import { digestOf, writeSpoolFile, type SpooledFile } from './spool.ts';
import { StorageFailure } from './storage-failure.ts';
import { contentTypeOf, type Storage } from './storage.ts';

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

/** Retries of a write whose bytes the provider does not send again: about 20 seconds in total. */
const putRetries = { retries: 5, minTimeout: 200, factor: 3, maxTimeout: 12_000 };

/** Makes the artifact store; `outbound` reads the URLs of providers. */
export function createArtifactStore(deps: { storage: Storage; outbound: Outbound }) {
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

  async function keep(spooled: SpooledFile, options: StoreOptions, retryable: boolean) {
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
      const {
        output: { medium },
        signal,
      } = options;
      const spooled = await spoolOutput(deps, output, { medium, signal });
      const retryable = output.kind === 'url';
      try {
        return await keep(spooled, options, retryable);
      } catch (cause) {
        if (cause instanceof ProviderFailure || cause instanceof StorageFailure) throw cause;
        // For example, the disk is full while a picture is converted.
        throw new StorageFailure('the output could not be processed', { retryable, cause });
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
  const cannotRead = (cause?: unknown): never => {
    throw new StorageFailure('the object cannot be read', { retryable, cause });
  };
  const object = (await storage.open(storageKey).catch(cannotRead)) ?? cannotRead();
  const path = await storage.spoolPath();
  try {
    const digest = await writeSpoolFile(path, object.stream).catch(cannotRead);
    const { width, height, durationSeconds, hasAudio } = await probeMedia(path, medium);
    return { ...digest, width, height, durationSeconds, hasAudio };
  } finally {
    await rm(path, { force: true });
  }
}

/** Returns the file extension of the requested format; null if the request names none. */
function extensionOf(output: OutputSpec): string | null {
  return output.format === 'jpeg' ? 'jpg' : output.format;
}

async function convert(storage: Storage, path: string, extension: string): Promise<SpooledFile> {
  const target = await storage.spoolPath();
  const format = extension === 'jpg' ? 'jpeg' : extension === 'webp' ? 'webp' : 'png';
  try {
    await sharp(path, { limitInputPixels: pixelsMax })
      .flatten(format === 'jpeg' ? { background: '#ffffff' } : false)
      .toFormat(format)
      .toFile(target);
    return { path: target, ...(await digestOf(createReadStream(target))) };
  } catch (error) {
    await rm(target, { force: true });
    throw error;
  }
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
