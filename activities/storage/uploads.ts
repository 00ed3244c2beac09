/**
 * Uploads: files that callers bring as inputs. A signed URL makes a row; the row is completed once the
 * object is in the storage and its first bytes are what was agreed. Objects that went straight to an S3
 * store are looked at when they are first used.
 */
import { buffer } from 'node:stream/consumers';
import sharp from 'sharp';
import { sql } from 'slonik';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { fileBytesMax, mediaTypeOf, sniff, type MediaType } from './media-types.ts';
import type { Storage } from './storage.ts';

/** An upload as it is recorded. */
const uploadRow = z.object({
  id: z.string(),
  organization_id: z.string(),
  storage_key: z.string(),
  content_type: z.string().nullable(),
  size_bytes: z.number().nullable(),
  completed: z.boolean(),
});

/** See `uploadRow`. */
export type Upload = z.infer<typeof uploadRow>;

interface NewUpload {
  id: string;
  organizationId: string;
  keyId: string;
  storageKey: string;
  /** Null when the caller told neither a type nor a file name that names one. */
  contentType: string | null;
  sizeBytes: number | null;
  filename: string | null;
  purpose: string | null;
  /** Unix milliseconds. */
  expiresAtMs: number;
}

/** What arrived. */
export interface ReceivedFile {
  contentType: string;
  sizeBytes: number;
  /** Null for objects that went to the store directly. */
  sha256: string | null;
}

/** The uploads of all organizations. */
export interface Uploads {
  create: (upload: NewUpload) => Promise<void>;
  /** Null when there is none under this id. */
  find: (id: string) => Promise<Upload | null>;
  /** Records that the object is there. */
  complete: (id: string, file: ReceivedFile) => Promise<void>;
  /**
   * Makes sure that the object is there and is what was agreed; one that is not is removed.
   * @returns its content type, or null when it has not come yet.
   * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE, INVALID_REQUEST
   */
  confirm: (upload: Upload) => Promise<string | null>;
  /** Confirms or forgets uploads whose URL ended an hour ago without a word; returns how many. */
  sweep: () => Promise<number>;
}

/** The most pixels of an image that anything here opens. */
const pixelsMax = 64_000_000;
/** Enough of a file's start to tell its type, and a picture's size behind whatever metadata. */
export const headBytes = 1024 * 1024;
/** An upload may still be running when its URL ends. */
const sweepAfterMs = 3_600_000;

/**
 * Checks the start of a file against what was agreed: type by first bytes, pixels by the header.
 * @returns the type that it is taken for.
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE
 */
export async function inspectHead(head: Buffer, agreed: string | null): Promise<MediaType> {
  const found = sniff(head);
  const wanted = agreed === null ? found : mediaTypeOf(agreed);
  if (!found || !wanted || found.family !== wanted.family) {
    const expected = wanted ? `a file of the type ${wanted.contentType}` : 'of an accepted type';
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', `The content is not ${expected}.`);
  }
  if (wanted.medium === 'image') await refusePixelBomb(head);
  return wanted;
}

async function refusePixelBomb(head: Buffer): Promise<void> {
  let pixels = Number.NaN;
  try {
    // Only the header is read; nothing is decoded here.
    const { width, height } = await sharp(head, { limitInputPixels: false }).metadata();
    pixels = width * height;
  } catch {
    // Falls through: a header that says nothing is refused like one that says too much.
  }
  if (!(pixels > 0)) {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'The image has no readable header.');
  }
  if (pixels > pixelsMax) {
    throw new GatewayError('FILE_TOO_LARGE', `The image has more than ${pixelsMax} pixels.`);
  }
}

/** Bytes that an upload may have, by what is known of it. */
export function bytesMaxOf(contentType: string | null): number {
  const type = contentType === null ? undefined : mediaTypeOf(contentType);
  return type ? fileBytesMax[type.medium] : Math.max(...Object.values(fileBytesMax));
}

/** See `Uploads`. */
export function createUploads(deps: { pool: DatabasePool; storage: Storage }): Uploads {
  const { pool, storage } = deps;
  const none = z.object({});
  const columns = sql.fragment`id, organization_id, storage_key, content_type, size_bytes,
    completed_at IS NOT NULL AS completed`;

  async function complete(id: string, file: ReceivedFile): Promise<void> {
    await pool.query(sql.type(none)`UPDATE upload SET content_type = ${file.contentType},
      size_bytes = ${file.sizeBytes}, sha256 = ${file.sha256}, completed_at = clock_timestamp()
      WHERE id = ${id} AND completed_at IS NULL`);
  }

  async function headOf(key: string): Promise<Buffer> {
    const object = await storage.open(key, { first: 0, last: headBytes - 1 });
    return object ? buffer(object.stream) : Buffer.alloc(0);
  }

  async function confirm(upload: Upload): Promise<string | null> {
    if (upload.completed) return upload.content_type;
    const sizeBytes = await storage.size(upload.storage_key);
    if (sizeBytes === null) return null;
    try {
      const type = await inspectHead(await headOf(upload.storage_key), upload.content_type);
      if (sizeBytes > fileBytesMax[type.medium]) throw new GatewayError('FILE_TOO_LARGE');
      if (upload.size_bytes !== null && upload.size_bytes !== sizeBytes) {
        throw new GatewayError(
          'INVALID_REQUEST',
          'The file does not have the size that was named.',
        );
      }
      await complete(upload.id, { contentType: type.contentType, sizeBytes, sha256: null });
      return type.contentType;
    } catch (error) {
      if (error instanceof GatewayError) await storage.remove(upload.storage_key);
      throw error;
    }
  }

  async function confirmOrForget(upload: Upload): Promise<void> {
    const there = await confirm(upload).catch((error: unknown) => {
      if (error instanceof GatewayError) return null;
      throw error;
    });
    if (there !== null) return;
    await pool.query(sql.type(none)`DELETE FROM upload
      WHERE id = ${upload.id} AND completed_at IS NULL`);
  }

  return {
    complete,
    confirm,
    async create(upload) {
      await pool.query(sql.type(none)`INSERT INTO upload
          (id, organization_id, key_id, storage_key, content_type, size_bytes, filename, purpose, expires_at)
        VALUES (${upload.id}, ${upload.organizationId}, ${upload.keyId}, ${upload.storageKey},
          ${upload.contentType}, ${upload.sizeBytes}, ${upload.filename}, ${upload.purpose},
          to_timestamp(${upload.expiresAtMs / 1000}))`);
    },
    find: (id) =>
      pool.maybeOne(sql.type(uploadRow)`SELECT ${columns} FROM upload WHERE id = ${id}`),
    async sweep() {
      const expired = await pool.any(sql.type(uploadRow)`SELECT ${columns} FROM upload
        WHERE completed_at IS NULL
          AND expires_at < clock_timestamp() - ${sweepAfterMs} * interval '1 millisecond'
        ORDER BY expires_at LIMIT 100`);
      await Promise.all(expired.map(confirmOrForget));
      return expired.length;
    },
  };
}
