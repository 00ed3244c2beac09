/**
 * Artifact store: saves a provider's output as an artifact. The output is streamed to a spool file,
 * probed, converted if the request asks for another format, marked as generated, hashed and stored. Memory use does not
 * depend on the size of the output.
 */
import { SpanKind } from '@opentelemetry/api';
import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import pRetry from 'p-retry';
import sharp from 'sharp';
import type { Outbound } from '../platform/outbound.ts';
import { inSpan } from '../platform/telemetry.ts';
import type { OutputMark, OutputSpec, StoredArtifact } from '../domain/job-plan.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';
import { markFile, readCredentials } from './credentials/content-credentials.ts';
import { pixelsMax } from './media-types.ts';
import { probeMedia } from './probe.ts';
import { spoolOutput, type ProviderOutput } from './provider-output.ts';
import { digestStream, withSpoolFile, writeSpoolFile } from './spool.ts';
import { StorageFailure, contentTypeOf, type Storage } from './storage.ts';

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
  mark: OutputMark;
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

/** Services of the artifact store. */
interface ArtifactDeps {
  storage: Storage;
  /** Downloads outputs that providers deliver as URLs. */
  outbound: Outbound;
  /** Whether outputs without a mark are marked as generated. */
  marksOutputs: boolean;
}

/** Creates the artifact store. */
export function createArtifactStore(deps: ArtifactDeps) {
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

  async function storeSpooled(
    spooledPath: string,
    options: StoreOptions,
    retryable: boolean,
  ): Promise<StoredArtifact> {
    const paths: string[] = [];
    try {
      const { path, extension, ...described } = await finishFile(deps, spooledPath, {
        ...options,
        paths,
      });
      const { organizationId, jobId, callIndex, outputIndex } = options.place;
      const storageKey = `${organizationId}/${jobId}/${callIndex}-${outputIndex}.${extension}`;
      const contentType = contentTypeOf(storageKey);
      if ((await putWithRetries(storageKey, path, retryable)) === 'stored') {
        return { storageKey, contentType, ...described };
      }
      const stored = await describeStored(deps.storage, storageKey, {
        medium: options.output.medium,
        jobId,
        retryable,
      });
      return { storageKey, contentType, ...stored };
    } finally {
      await Promise.all(paths.map((path) => rm(path, { force: true })));
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
      const spooledPath = await spoolOutput(deps, output, { medium, signal: options.signal });
      const retryable = output.kind === 'url';
      try {
        return await storeSpooled(spooledPath, options, retryable);
      } catch (cause) {
        if (cause instanceof ProviderFailure || cause instanceof StorageFailure) throw cause;
        // This happens, for example, if the disk is full during an image conversion.
        throw new StorageFailure('the output could not be processed', { retryable, cause });
      } finally {
        await rm(spooledPath, { force: true });
      }
    },
  };
}
/**
 * Converts a file to the requested format and marks it. `paths` receives each new file, which the
 * caller removes.
 */
async function finishFile(
  { storage, marksOutputs }: ArtifactDeps,
  path: string,
  { paths, ...options }: StoreOptions & { paths: string[] },
) {
  const { output, place } = options;
  const { extension: detectedExtension, ...properties } = await probeMedia(path, output.medium);
  const extension = getRequestedExtension(output) ?? detectedExtension;
  const newPath = async (): Promise<string> => {
    const created = await storage.spoolPath();
    paths.push(created);
    return created;
  };
  let file = path;
  if (extension !== detectedExtension) {
    file = await newPath();
    await convertPicture(path, { extension, to: file });
  }
  const mark = { ...options.mark, jobId: place.jobId, createdAt: new Date() };
  const finished = marksOutputs
    ? await markFile(file, mark, { extension, newPath })
    : { path: file, credentials: await readCredentials(file, { extension, ...place }) };
  const digest = await digestStream(createReadStream(finished.path));
  const { credentials: contentCredentials } = finished;
  return { path: finished.path, extension, ...digest, ...properties, contentCredentials };
}

export type ArtifactStore = ReturnType<typeof createArtifactStore>;

interface DescribeOptions {
  medium: OutputSpec['medium'];
  jobId: string;
  retryable: boolean;
}

/**
 * Describes the object that an earlier attempt stored. That object was not replaced, so the job's
 * result must describe it rather than the bytes of this attempt.
 * @throws StorageFailure
 */
async function describeStored(
  storage: Storage,
  storageKey: string,
  { medium, jobId, retryable }: DescribeOptions,
) {
  const throwUnreadable = (cause?: unknown): never => {
    throw new StorageFailure('the object cannot be read', { retryable, cause });
  };
  const object = (await storage.open(storageKey).catch(throwUnreadable)) ?? throwUnreadable();
  return withSpoolFile(storage, async (path) => {
    const digest = await writeSpoolFile(path, object.stream).catch(throwUnreadable);
    const { extension, ...properties } = await probeMedia(path, medium);
    const contentCredentials = await readCredentials(path, { extension, jobId });
    return { ...digest, ...properties, contentCredentials };
  });
}

/** Returns the file extension of the requested format; null if the request names no format. */
function getRequestedExtension(output: OutputSpec): string | null {
  return output.format === 'jpeg' ? 'jpg' : output.format;
}

async function convertPicture(
  path: string,
  { extension, to }: { extension: string; to: string },
): Promise<void> {
  const format = extension === 'jpg' ? 'jpeg' : extension === 'webp' ? 'webp' : 'png';
  await sharp(path, { limitInputPixels: pixelsMax })
    .autoOrient()
    .flatten(format === 'jpeg' ? { background: '#ffffff' } : false)
    .toFormat(format)
    .toFile(to);
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
