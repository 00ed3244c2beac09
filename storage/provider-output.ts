/** Writes provider outputs to spool files. Memory use does not depend on the size of the output. */
import { rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { ProviderFailure } from '../domain/provider-failure.ts';
import type { OutputSpec } from '../domain/job-plan.ts';
import { OutboundError, type Outbound } from '../platform/outbound.ts';
import { fillSpoolFile } from './spool.ts';
import { StorageFailure, type Storage } from './storage.ts';

/** Output of a provider: a URL to download, or a stream of its bytes. */
export type ProviderOutput = { kind: 'url'; url: string } | { kind: 'stream'; stream: Readable };

interface SpoolDeps {
  storage: Storage;
  /** Downloads the URLs that providers return. */
  outbound: Outbound;
}

interface SpoolOptions {
  medium: OutputSpec['medium'];
  signal: AbortSignal;
}

/** Maximum size of an output in bytes, keyed by medium. */
const bytesMax: Record<OutputSpec['medium'], number> = {
  image: 100 * 1024 * 1024,
  audio: 200 * 1024 * 1024,
  video: 1024 * 1024 * 1024,
  json: 16 * 1024 * 1024,
};
const fetchTimeoutMs = 120_000;

/**
 * Writes an output to a spool file, which the caller must remove, and returns its path.
 * @throws ProviderFailure `failed` if the output is too large, or its stream ended early
 * @throws StorageFailure if the file could not be written, or the URL could not be downloaded
 */
export async function spoolOutput(
  { storage, outbound }: SpoolDeps,
  output: ProviderOutput,
  options: SpoolOptions,
): Promise<string> {
  const retryable = output.kind === 'url';
  const source = await openOutput(outbound, output, options);
  let sourceError: unknown;
  source.once('error', (error) => {
    sourceError = error;
  });
  const path = await storage.spoolPath();
  try {
    await fillSpoolFile(path, source);
    return path;
  } catch (cause) {
    source.destroy();
    await rm(path, { force: true });
    if (sourceError instanceof ProviderFailure) throw sourceError;
    if (sourceError === undefined) {
      throw new StorageFailure('the spool file could not be written', { retryable, cause });
    }
    if (retryable) throw createSourceFailure(sourceError);
    // The provider sends this stream only once, so the rest of the output is lost.
    throw new ProviderFailure('failed', 'the provider ended its response unexpectedly', { cause });
  }
}

/** Opens an output as a stream. Reading more than the maximum number of bytes fails. */
async function openOutput(
  outbound: Outbound,
  output: ProviderOutput,
  { medium, signal }: SpoolOptions,
): Promise<Readable> {
  if (output.kind === 'stream') return limitBytes(output.stream, bytesMax[medium]);
  try {
    const limits = { bytesMax: bytesMax[medium], timeoutMs: fetchTimeoutMs, signal };
    return await outbound.fetch(output.url, limits);
  } catch (error) {
    throw createSourceFailure(error);
  }
}

/**
 * Limits the number of bytes that can be read from a stream. URLs need no such limit, because the
 * outbound fetch has its own.
 * @throws ProviderFailure `failed` if the stream has more bytes
 */
function limitBytes(source: Readable, sizeMax: number): Readable {
  async function* readLimited(): AsyncGenerator<Buffer> {
    let sizeBytes = 0;
    const chunks: AsyncIterable<Buffer> = source;
    for await (const chunk of chunks) {
      sizeBytes += chunk.length;
      if (sizeBytes > sizeMax) {
        throw new ProviderFailure('failed', `the output has more than ${sizeMax} bytes`);
      }
      yield chunk;
    }
  }
  return Readable.from(readLimited(), { objectMode: false });
}

/**
 * Creates the failure for an output URL that could not be downloaded. The failure is final if the
 * provider's response is unusable, and retryable otherwise.
 */
function createSourceFailure(error: unknown): ProviderFailure | StorageFailure {
  if (error instanceof OutboundError && !error.isTemporary) {
    return new ProviderFailure('failed', `the provider's output cannot be read: ${error.message}`);
  }
  return new StorageFailure("the provider's output could not be downloaded", {
    retryable: true,
    isDownload: true,
    cause: error,
  });
}
