/**
 * Copies of foreign inputs that a price is measured on. The provider receives the copy, because the
 * server of the URL could send the provider a larger file than the measured one. A copy belongs to
 * one request and is removed when the request is refused or its job is settled.
 */
import { rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { sql } from 'slonik';
import { z } from 'zod';
import sharp from 'sharp';
import { newId } from '../../domain/ids.ts';
import { GatewayError } from '../../domain/errors.ts';
import { command, type DatabasePool } from '../../platform/database.ts';
import { OutboundError, type Outbound } from '../../platform/outbound.ts';
import { storageReference } from './inputs.ts';
import {
  fileBytesMax,
  sniff,
  sniffBytes,
  readContainer,
  storedSource,
  pixelsMax,
  type MediaType,
} from '../media.ts';
import { writeSpoolFile } from '../spool.ts';
import type { Storage } from '../storage.ts';
import type { InputFacts } from '../../studio/capability.ts';

const storageKeyRow = z.object({ storage_key: z.string() });

/** Request that copies are made for. */
interface CopyingRequest {
  organizationId: string;
  jobId: string;
}

/** Copies of one request. */
export interface RequestCopies {
  /**
   * Copies a foreign file, up to the size limit of uploads of the medium.
   * @returns the reference of the copy (storage/inputs/inputs.ts)
   * @throws InputUnreadable; GatewayError SERVICE_UNAVAILABLE when too many copies are in progress
   */
  keep: (url: string, medium: 'image' | 'video') => Promise<string>;
  /** Removes the copies of a refused request, and stops those in progress. */
  discard: () => Promise<void>;
}

interface InputCopiesDeps {
  pool: DatabasePool;
  storage: Storage;
  outbound: Outbound;
}

const formats = {
  image: 'not a PNG, JPEG, WebP or GIF',
  video: 'not an MP4, WebM or QuickTime video',
};
/** Time limit of a whole file, in milliseconds. */
const timeoutMs = { image: 20_000, video: 60_000 };
/**
 * Concurrent copies in this process, each with up to the bytes of a video on disk, and of one
 * organization.
 */
const atOnceMax = { process: 96, organization: 24 };
/**
 * Retention of a copy without a job: a workflow may wait this long for a worker before it reserves.
 */
const keptFor = '48 hours';
const sweepCountMax = 500;

/** Makes the copies of all requests. */
export function createInputCopies(deps: InputCopiesDeps) {
  const { pool, storage } = deps;
  const enter = createPlaces();

  async function remove(storageKey: string): Promise<void> {
    await storage.remove(storageKey);
    await pool.query(command`DELETE FROM input_copy WHERE storage_key = ${storageKey}`);
  }

  /** Fetches, checks and stores one file; calls `named` after its key is recorded. */
  async function copy(wanted: Wanted, named: (storageKey: string) => void): Promise<string> {
    const { url, medium, signal, organizationId, jobId } = wanted;
    const path = await storage.spoolPath();
    try {
      const limits = { bytesMax: fileBytesMax[medium], timeoutMs: timeoutMs[medium], signal };
      const body = await deps.outbound.fetch(url, limits);
      const { extension } = await spool(body, path, medium);
      const storageKey = `${organizationId}/${newId('upload')}.${extension}`;
      await pool.query(command`INSERT INTO input_copy (storage_key, organization_id, job_id)
        VALUES (${storageKey}, ${organizationId}, ${jobId})`);
      named(storageKey);
      await storage.put(storageKey, path);
      return storageReference(storageKey);
    } catch (error) {
      if (!(error instanceof OutboundError)) throw error;
      throw new InputUnreadable(error.message, { cause: error });
    } finally {
      await rm(path, { force: true });
    }
  }

  return {
    of(request: CopyingRequest): RequestCopies {
      const ending = new AbortController();
      const keys: string[] = [];
      return {
        async keep(url, medium) {
          const leave = enter(request.organizationId);
          try {
            const wanted = { url, medium, signal: ending.signal, ...request };
            return await copy(wanted, (storageKey) => keys.push(storageKey));
          } finally {
            leave();
          }
        },
        async discard() {
          ending.abort();
          // The sweeper removes copies that cannot be removed now.
          await Promise.allSettled(keys.map(remove));
        },
      };
    },

    /**
     * Removes copies whose job is settled, and copies that are two days old without a job; returns
     * their number.
     */
    async sweep(): Promise<number> {
      const old = await pool.anyFirst(sql.type(storageKeyRow)`
        SELECT c.storage_key FROM input_copy c LEFT JOIN reservation r ON r.id = c.job_id
        WHERE r.state <> 'reserved'
          OR (r.id IS NULL AND c.created_at < clock_timestamp() - ${keptFor}::interval)
        ORDER BY c.created_at LIMIT ${sweepCountMax}`);
      const ends = await Promise.allSettled(old.map(remove));
      return ends.filter(({ status }) => status === 'fulfilled').length;
    },
  };
}

/**
 * Makes the slots of copies. Taking a slot throws GatewayError SERVICE_UNAVAILABLE if none is free.
 */
function createPlaces(): (organizationId: string) => () => void {
  const taken: string[] = [];
  return (organizationId) => {
    const own = taken.filter((id) => id === organizationId).length;
    if (taken.length >= atOnceMax.process || own >= atOnceMax.organization) {
      throw new GatewayError('SERVICE_UNAVAILABLE', 'Too many inputs are being read.', {
        retryAfterSeconds: 2,
      });
    }
    taken.push(organizationId);
    return () => void taken.splice(taken.indexOf(organizationId), 1);
  };
}

interface Wanted extends CopyingRequest {
  url: string;
  medium: 'image' | 'video';
  signal: AbortSignal;
}

/**
 * Writes a file if its first bytes are of the medium.
 * @throws InputUnreadable, OutboundError
 */
async function spool(body: Readable, path: string, medium: 'image' | 'video'): Promise<MediaType> {
  const seen: { type?: MediaType } = {};
  async function* checked(): AsyncGenerator<Buffer> {
    let head = Buffer.alloc(0);
    const chunks: AsyncIterable<Buffer> = body;
    for await (const chunk of chunks) {
      if (!seen.type) {
        head = Buffer.concat([head, chunk]);
        if (head.length >= sniffBytes) seen.type = await typeOf(head, medium);
      }
      yield chunk;
    }
    seen.type ??= await typeOf(head, medium);
  }
  await writeSpoolFile(path, checked);
  if (!seen.type) throw new InputUnreadable(formats[medium]);
  return seen.type;
}

async function typeOf(head: Buffer, medium: 'image' | 'video'): Promise<MediaType> {
  const type = await sniff(head);
  if (type?.medium !== medium) throw new InputUnreadable(formats[medium]);
  return type;
}

/** An unreadable or unsuitable input; the message is for the caller. */
export class InputUnreadable extends Error {
  override readonly name = 'InputUnreadable';
}

/** Bytes in which an image states its dimensions, with the metadata before them. */
const headBytesMax = 2 * 1024 * 1024;

/**
 * Measures an object of the storage.
 * @throws InputUnreadable
 */
export async function measureInput(
  storage: Storage,
  storageKey: string,
  medium: 'image' | 'video',
): Promise<InputFacts> {
  const sizeBytes = (await storage.size(storageKey)) ?? 0;
  if (sizeBytes === 0) throw new InputUnreadable('it is empty or no longer exists');
  return medium === 'image'
    ? measurePicture(storage, storageKey, sizeBytes)
    : measureVideo(storage, storageKey);
}

async function measurePicture(
  storage: Storage,
  key: string,
  sizeBytes: number,
): Promise<InputFacts> {
  const last = Math.min(headBytesMax, sizeBytes) - 1;
  const object = await storage.open(key, { first: 0, last });
  if (!object) throw new InputUnreadable('it is gone');
  const head = await buffer(object.stream);
  // Checked before decoding, because the image library would also read SVG and TIFF.
  if ((await sniff(head))?.medium !== 'image') {
    throw new InputUnreadable('not a PNG, JPEG, WebP or GIF');
  }
  try {
    const { autoOrient } = await sharp(head, { limitInputPixels: pixelsMax * 4 }).metadata();
    return { ...autoOrient, durationSeconds: null };
  } catch (cause) {
    throw new InputUnreadable('it is not a readable image', { cause });
  }
}

async function measureVideo(storage: Storage, key: string): Promise<InputFacts> {
  const found = await readContainer(storedSource(storage, key));
  if (!found) throw new InputUnreadable('it is not a readable video');
  if (!found.video) throw new InputUnreadable('it has no video track');
  return { ...found.video, durationSeconds: found.durationSeconds };
}
