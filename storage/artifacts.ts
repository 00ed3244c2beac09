/**
 * Artifact store: saves a provider's output as an artifact. The output is streamed to a spool file,
 * probed, converted if the request asks for another format, hashed and stored. Memory use does not
 * depend on the size of the output.
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
import { digestStream, writeSpoolFile, type SpooledFile } from './spool.ts';
import { StorageFailure } from './storage-failure.ts';
import { contentTypeOf, type Storage } from './storage.ts';

/** Identifies an artifact by organization, job, call index and output index. */
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

/**
 * Retry policy for storing an output that the provider sends only once. The activity `submit` has
 * five minutes to store it.
 */
const putRetries = {
  retries: Infinity,
  minTimeout: 200,
  factor: 3,
  maxTimeout: 12_000,
  maxRetryTime: 240_000,
};

/** Creates the artifact store. `outbound` downloads outputs that providers deliver as URLs. */
export function createArtifactStore(deps: { storage: Storage; outbound: Outbound }) {
  async function putWithRetries(
    key: string,
    path: string,
    retryable: boolean,
  ): Promise<'stored' | 'exists'> {
    try {
      return await pRetry(
        () => deps.storage.put(key, path),
        retryable ? { retries: 0 } : putRetries,
      );
    } catch (cause) {
      throw new StorageFailure('the object could not be stored', { retryable, cause });
    }
  }

  async function storeSpooled(spooled: SpooledFile, options: StoreOptions, retryable: boolean) {
    const { extension: detectedExtension, ...properties } = await probeMedia(
      spooled.path,
      options.output.medium,
    );
    const extension = getRequestedExtension(options.output) ?? detectedExtension;
    const file =
      extension === detectedExtension
        ? spooled
        : await convertPicture(deps.storage, spooled.path, extension);
    try {
      const { organizationId, jobId, callIndex, outputIndex } = options.place;
      const storageKey = `${organizationId}/${jobId}/${callIndex}-${outputIndex}.${extension}`;
      const contentType = contentTypeOf(storageKey);
      if ((await putWithRetries(storageKey, file.path, retryable)) === 'exists') {
        const stored = await describeStored(deps.storage, storageKey, {
          ...options.output,
          retryable,
        });
        return { storageKey, contentType, ...stored };
      }
      const { sizeBytes, sha256 } = file;
      return { storageKey, contentType, sizeBytes, sha256, ...properties };
    } finally {
      if (file !== spooled) await rm(file.path, { force: true });
    }
  }

  return {
    /**
     * Stores an output and returns its description. If an earlier attempt already stored the
     * artifact, returns the description of that one.
     * @throws StorageFailure if the output could not be downloaded or stored; it is retryable if
     * the provider delivered the output as a URL
     * @throws ProviderFailure `failed` if the bytes are unusable
     */
    store: async (output: ProviderOutput, options: StoreOptions): Promise<StoredArtifact> => {
      const { medium } = options.output;
      const spooled = await spoolOutput(deps, output, { medium, signal: options.signal });
      const retryable = output.kind === 'url';
      try {
        return await storeSpooled(spooled, options, retryable);
      } catch (cause) {
        if (cause instanceof ProviderFailure || cause instanceof StorageFailure) throw cause;
        // This happens, for example, if the disk is full during an image conversion.
        throw new StorageFailure('the output could not be processed', { retryable, cause });
      } finally {
        await rm(spooled.path, { force: true });
      }
    },
  };
}
export type ArtifactStore = ReturnType<typeof createArtifactStore>;

/**
 * Describes the object that an earlier attempt stored. That object was not replaced, so the job's
 * result must describe it rather than the bytes of this attempt.
 * @throws StorageFailure
 */
async function describeStored(
  storage: Storage,
  storageKey: string,
  { medium, retryable }: OutputSpec & { retryable: boolean },
) {
  const throwUnreadable = (cause?: unknown): never => {
    throw new StorageFailure('the object cannot be read', { retryable, cause });
  };
  const object = (await storage.open(storageKey).catch(throwUnreadable)) ?? throwUnreadable();
  const path = await storage.spoolPath();
  try {
    const digest = await writeSpoolFile(path, object.stream).catch(throwUnreadable);
    const { width, height, durationSeconds, hasAudio } = await probeMedia(path, medium);
    return { ...digest, width, height, durationSeconds, hasAudio };
  } finally {
    await rm(path, { force: true });
  }
}

/** Returns the file extension of the requested format; null if the request names no format. */
function getRequestedExtension(output: OutputSpec): string | null {
  return output.format === 'jpeg' ? 'jpg' : output.format;
}

async function convertPicture(
  storage: Storage,
  path: string,
  extension: string,
): Promise<SpooledFile> {
  const convertedPath = await storage.spoolPath();
  const format = extension === 'jpg' ? 'jpeg' : extension === 'webp' ? 'webp' : 'png';
  try {
    await sharp(path, { limitInputPixels: pixelsMax })
      .flatten(format === 'jpeg' ? { background: '#ffffff' } : false)
      .toFormat(format)
      .toFile(convertedPath);
    return { path: convertedPath, ...(await digestStream(createReadStream(convertedPath))) };
  } catch (error) {
    await rm(convertedPath, { force: true });
    throw error;
  }
}

/** Wraps `store` in a tracing span that records the content type and size of the artifact. */
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
