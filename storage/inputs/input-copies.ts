/**
 * Copies inputs from other servers if a price depends on their measurements. The provider gets the
 * copy, so a server cannot send the gateway a small file and the provider a large one. A copy
 * belongs to one request and is removed when the request is rejected or its job is settled.
 */
import { rm, stat } from 'node:fs/promises';
import { sql } from 'slonik';
import { z } from 'zod';
import { newId } from '../../domain/ids.ts';
import { GatewayError } from '../../domain/errors.ts';
import { command, type DatabasePool } from '../../platform/database.ts';
import { createShares } from '../../platform/shares.ts';
import { forEachIsolated, type IsolationReport } from '../../platform/background.ts';
import type { Logger } from '../../platform/logger.ts';
import { OutboundError, type Outbound } from '../../platform/outbound.ts';
import { toStorageReference } from './inputs.ts';
import type { ByteSource } from '../byte-source.ts';
import {
  UnusableFile,
  isConverted,
  mayBeUsed,
  signatureBytes,
  fileBytesMax,
  inputUses,
  measureSource,
} from '../media-types.ts';
import type { InputMeasurements } from '../../domain/measured-price.ts';
import type { AcceptFile } from '../picture-conversion.ts';
import { writeSpoolFile } from '../spool.ts';
import type { Storage } from '../storage.ts';

/** Row of a copy, whose id is the storage key of its object. */
const copyRow = z.object({ id: z.string() });

/** Request whose inputs are copied. */
interface CopyingRequest {
  organizationId: string;
  jobId: string;
  /**
   * Counts bytes on the disk of this process until the request ends.
   * @throws GatewayError if the open requests of the organization have too many
   */
  countBytes: (bytes: number) => void;
  /** True if inputs are only measured: of a picture or film, the parts with its headers are enough. */
  readsHeadsOnly?: true;
}

export interface RequestCopies {
  /**
   * Copies a file from another server into the storage. Its size limit is that of an upload of the
   * same medium; that of a film for a recording, which may be the sound of a film.
   * @returns a reference to the copy
   * @throws UnusableFile; GatewayError SERVICE_UNAVAILABLE if too many copies are in progress
   */
  add: (url: string, medium: keyof typeof inputUses) => Promise<string>;
  /**
   * Measures a picture or film on another server without copying it, by its headers. Null if it must
   * be copied: the request needs more than its measurements, or the server sends only whole files.
   * @throws UnusableFile; GatewayError SERVICE_UNAVAILABLE
   */
  measureHeaders: (
    url: string,
    medium: keyof typeof inputUses,
  ) => Promise<InputMeasurements | null>;
  /** Removes the copies of a rejected request, and aborts those in progress. */
  discard: () => Promise<void>;
}

interface InputCopiesDeps {
  pool: DatabasePool;
  storage: Storage;
  outbound: Outbound;
  acceptFile: AcceptFile;
  logger: Logger;
  /** Storage quota of an organization in bytes. */
  bytesMax: number;
}

/** Timeout for downloading a complete file, in milliseconds. */
const timeoutMs = { image: 20_000, video: 60_000, audio: 60_000 };
const bytesMax = { ...fileBytesMax, audio: fileBytesMax.video };
/**
 * Maximum number of simultaneous copies in this process; each may occupy disk space for a video.
 * Organizations share the slots fairly, so that a slow server of one organization does not delay
 * the copies of another.
 */
const copiesMax = 32;
/** Maximum wait for a free slot, in milliseconds. */
const slotWaitMs = 20_000;
/**
 * Retention period of a copy whose job has no reservation. A workflow may wait this long for a
 * worker before it reserves credits.
 */
const unreservedRetention = '48 hours';
/** Maximum number of copies removed by one sweep. */
const sweepCountMax = 500;

/** Creates the store of input copies. */
export function createInputCopies(deps: InputCopiesDeps) {
  const { pool, storage, logger } = deps;
  const acquireSlot = createSlots();

  /** Downloads and stores one file. Calls `onRecorded` once its key is in the database. */
  async function copyFile(
    source: CopySource,
    onRecorded: (storageKey: string) => void,
  ): Promise<string> {
    const { url, medium, signal, organizationId, jobId } = source;
    const path = await storage.spoolPath();
    try {
      const limits = { bytesMax: bytesMax[medium], timeoutMs: timeoutMs[medium], signal };
      const download = readDownload(await deps.outbound.fetch(url, limits), source);
      await writeSpoolFile(path, () => download.read());
      // The file is checked before it is stored; `measureInput` reads the stored copy.
      const { type } = await deps.acceptFile(path, inputUses[medium]);
      // The check names another medium by its first bytes, but a part must never pass as the file.
      if (!download.isWhole()) throw new UnusableFile(`does not start like ${medium}`);
      const storageKey = `${organizationId}/${newId('upload')}.${type.extension}`;
      const { size: sizeBytes } = await stat(path);
      await recordCopy(pool, { storageKey, organizationId, jobId, sizeBytes }, deps.bytesMax);
      onRecorded(storageKey);
      await storage.put(storageKey, path);
      return toStorageReference(storageKey);
    } catch (error) {
      if (!(error instanceof OutboundError)) throw error;
      throw new UnusableFile(error.message);
    } finally {
      await rm(path, { force: true });
    }
  }

  return {
    forRequest(request: CopyingRequest): RequestCopies {
      const abortController = new AbortController();
      const { signal } = abortController;
      const storageKeys: string[] = [];
      return {
        async add(url, medium) {
          const release = await acquireSlot(request.organizationId);
          const source = { url, medium, signal, ...request };
          return copyFile(source, (key) => storageKeys.push(key)).finally(release);
        },
        async measureHeaders(url, medium) {
          if (!request.readsHeadsOnly || medium === 'audio') return null;
          const release = await acquireSlot(request.organizationId);
          return measureRemoteFile(deps.outbound, { url, medium, signal, ...request }).finally(
            release,
          );
        },
        async discard() {
          abortController.abort();
          // `sweep` later removes the copies that could not be removed here.
          await Promise.allSettled(storageKeys.map((key) => removeCopy(deps, key)));
        },
      };
    },

    /** Removes copies of settled jobs and old ones without a reservation. */
    async sweep(): Promise<IsolationReport> {
      const copies = await takeRemovable(pool);
      return forEachIsolated(copies, ({ id }) => removeCopy(deps, id), { subject: 'copy', logger });
    },
  };
}

/** Removes a copy and its row. */
async function removeCopy(
  { pool, storage }: Pick<InputCopiesDeps, 'pool' | 'storage'>,
  storageKey: string,
): Promise<void> {
  await storage.remove(storageKey);
  await pool.query(command`DELETE FROM input_copy WHERE storage_key = ${storageKey}`);
}

/**
 * Creates the slots for simultaneous copies. The returned function waits for a slot, and returns a
 * function that releases it.
 * @throws GatewayError SERVICE_UNAVAILABLE
 */
function createSlots(): (organizationId: string) => Promise<() => void> {
  const slots = createShares(copiesMax);
  return async (organizationId) => {
    const release = await slots.enter(organizationId, slotWaitMs);
    if (release) return release;
    throw new GatewayError('SERVICE_UNAVAILABLE', 'Too many inputs are being read.', {
      retryAfterSeconds: 2,
    });
  };
}

/** Returns copies that are no longer needed; those that were not tried for longest come first. */
const takeRemovable = (pool: DatabasePool) =>
  pool.any(sql.type(copyRow)`
    UPDATE input_copy SET removal_tried_at = clock_timestamp() WHERE storage_key IN (
      SELECT c.storage_key FROM input_copy c LEFT JOIN reservation r ON r.id = c.job_id
      WHERE r.state <> 'reserved'
        OR (r.id IS NULL AND c.created_at < clock_timestamp() - ${unreservedRetention}::interval)
      ORDER BY c.removal_tried_at NULLS FIRST LIMIT ${sweepCountMax})
    RETURNING storage_key AS id`);

/**
 * Records a copy, unless it is recorded. Its size counts toward the storage quota of the
 * organization until the row is deleted (uploads.sql); without `quota` it may exceed the quota.
 * @throws GatewayError STORAGE_QUOTA_EXCEEDED
 */
export async function recordCopy(
  pool: DatabasePool,
  copy: { storageKey: string; organizationId: string; jobId: string; sizeBytes: number },
  quota: number | null = null,
): Promise<void> {
  const { rowCount } = await pool.query(command`
    WITH counted AS (
      UPDATE organization SET upload_bytes = upload_bytes + ${copy.sizeBytes}
      WHERE id = ${copy.organizationId}
        AND (${quota}::bigint IS NULL OR upload_bytes + ${copy.sizeBytes} <= ${quota})
        AND NOT EXISTS (SELECT FROM input_copy WHERE storage_key = ${copy.storageKey})
      RETURNING id)
    INSERT INTO input_copy (storage_key, organization_id, job_id, size_bytes)
    SELECT ${copy.storageKey}, id, ${copy.jobId}, ${copy.sizeBytes} FROM counted`);
  if (quota !== null && rowCount === 0) throw new GatewayError('STORAGE_QUOTA_EXCEEDED');
}

/** Minimum size of a part that is fetched, in bytes. A picture has many small headers. */
const partBytesMin = 256 * 1024;

/** Measures a file by its headers; null if the server sends only whole files. @throws UnusableFile */
async function measureRemoteFile(
  outbound: Outbound,
  source: CopySource,
): Promise<InputMeasurements | null> {
  try {
    const file = await openRemoteFile(outbound, source);
    return file && (await measureSource(file, source.medium));
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    throw new UnusableFile(error.message);
  }
}

/**
 * Opens a file on another server whose parts are fetched when they are read; null if the server
 * sends only whole files.
 * @throws OutboundError; UnusableFile if the file is too large
 */
async function openRemoteFile(
  outbound: Outbound,
  { url, medium, signal, countBytes }: CopySource,
): Promise<ByteSource | null> {
  const fetchPart = async (start: number, end: number) => {
    const part = await outbound.fetchPart(url, {
      start,
      end,
      timeoutMs: timeoutMs[medium],
      signal,
    });
    if (part) countBytes(part.bytes.length);
    return part && { start, ...part };
  };
  const first = await fetchPart(0, partBytesMin);
  if (!first) return null;
  let loaded = first;
  const { sizeBytes } = first;
  // A picture that is converted is measured as the provider will receive it.
  if (isConverted(first.bytes)) return null;
  if (sizeBytes > bytesMax[medium]) {
    throw new UnusableFile(`the file has more than ${bytesMax[medium]} bytes`);
  }
  return {
    size: () => Promise.resolve(sizeBytes),
    async read(start, end) {
      if (start < loaded.start || end > loaded.start + loaded.bytes.length) {
        const part = await fetchPart(
          start,
          Math.min(Math.max(end, start + partBytesMin), sizeBytes),
        );
        if (part?.sizeBytes !== sizeBytes) {
          throw new OutboundError('broken', 'the file changed while it was read');
        }
        loaded = part;
      }
      return loaded.bytes.subarray(start - loaded.start, end - loaded.start);
    },
    close: () => Promise.resolve(),
  };
}

/** File to copy. */
interface CopySource extends CopyingRequest {
  url: string;
  medium: keyof typeof inputUses;
  signal: AbortSignal;
}

/**
 * Passes a download through and counts its bytes. Ends it after the first bytes if they are certainly
 * of another medium; `isWhole` then returns false.
 */
function readDownload(body: AsyncIterable<Buffer>, { medium, countBytes }: CopySource) {
  let isWhole = false;
  return {
    async *read(): AsyncGenerator<Buffer> {
      let head: Buffer | null = Buffer.alloc(0);
      for await (const chunk of body) {
        countBytes(chunk.length);
        yield chunk;
        if (!head) continue;
        head = Buffer.concat([head, chunk]);
        if (head.length < signatureBytes) continue;
        if (!mayBeUsed(head, inputUses[medium])) return;
        head = null;
      }
      isWhole = true;
    },
    isWhole: () => isWhole,
  };
}
