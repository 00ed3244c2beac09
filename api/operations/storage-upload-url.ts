/** POST /api/v1/storage/upload-url: a signed URL that takes one file (spec §4.5, design §7). */
import { z } from 'zod';
import {
  mediaTypeOf,
  mediaTypeOfExtension,
  mediaTypes,
  type MediaType,
} from '../../activities/storage/media-types.ts';
import { untypedExtension } from '../../activities/storage/storage.ts';
import { bytesMaxOf } from '../../activities/storage/upload-inspection.ts';
import { fieldError } from '../../domain/errors.ts';
import { got } from '../../domain/request-words.ts';
import { newId } from '../../domain/ids.ts';
import { isoTime } from '../../domain/iso-time.ts';
import { bodySchema } from '../middleware/body-schema.ts';
import { time } from './fields.ts';
import { defineOperation, section } from './operation.ts';

const wish = bodySchema(
  z.strictObject({
    filename: z.string().min(1).max(255).optional(),
    contentType: z.string().min(1).max(127).optional(),
    size: z.int().min(1).optional(),
    purpose: z
      .string()
      .max(64)
      .regex(/^[a-z0-9_-]{1,64}$/, 'must be 1–64 of a–z, 0–9, _ and -')
      .optional(),
  }),
);

const uploadUrl = z
  .object({
    fileId: z.string().meta({ description: 'For requests that take a `fileId`.' }),
    uploadUrl: z.url(),
    method: z.literal('PUT'),
    headers: z
      .record(z.string(), z.string())
      .meta({ description: 'Send these exactly, with the file.' }),
    publicUrl: z
      .url()
      .meta({ description: 'The file can be read here for seven days, without a key.' }),
    url: z.url().meta({ description: 'The same as `publicUrl`.' }),
    storagePath: z.string(),
    maxBytes: z.int(),
    expiresAt: time.meta({ description: 'Until then the URL accepts the file, once.' }),
    publicUrlExpiresAt: time.meta({
      description: 'Until then the file can be read at `publicUrl`.',
    }),
  })
  .meta({ id: 'UploadUrl' });

/** Makes signed URLs. */
export const storageUploadUrl = section('Storage', {
  createUploadUrl: defineOperation({
    route: 'POST /api/v1/storage/upload-url',
    scope: 'storage:write',
    summary: 'Get a signed URL to upload a file',
    description:
      'The URL takes one PUT of exactly the size and type that were named, and nothing else. ' +
      'Images up to 25 MB, audio up to 100 MB, video up to 200 MB. ' +
      'An organization has a storage quota (`storage` of /usage); a file that no request names for 30 days ' +
      '(configurable) is removed.',
    request: {
      body: wish,
      bodyIsOptional: true,
      example: { filename: 'cat.png', contentType: 'image/png', size: 48_213 },
    },
    answer: uploadUrl,
    answers: { 200: 'Where to put the file, and where it is read.' },
    errors: ['FILE_TOO_LARGE', 'STORAGE_QUOTA_EXCEEDED'],
    async handle({ caller, body: wanted }, { storage, uploads, config }) {
      const type = agreedType(wanted);
      const maxBytes = bytesMaxOf(type?.contentType ?? null);
      const sizeBytes = wanted.size ?? null;
      if (sizeBytes !== null && sizeBytes > maxBytes) {
        const message = `must be at most ${maxBytes} bytes${got(sizeBytes)}`;
        throw fieldError('FILE_TOO_LARGE', 'size', message);
      }
      const { organizationId, keyId } = caller;
      const fileId = newId('upload');
      const storageKey = `${organizationId}/${fileId}.${type?.extension ?? untypedExtension}`;
      const ttlMs = config.UPLOAD_URL_TTL_MS;
      const signed = await storage.signUpload({ key: storageKey, sizeBytes, ttlMs });
      await uploads.create({
        id: fileId,
        organizationId,
        keyId,
        storageKey,
        contentType: type?.contentType ?? null,
        sizeBytes,
        bytesMax: sizeBytes ?? maxBytes,
        filename: wanted.filename ?? null,
        purpose: wanted.purpose ?? null,
        expiresAtMs: signed.expiresAtMs,
      });
      const { UPLOAD_READ_TTL_MS: readTtlMs } = config;
      const readableUntilMs = Math.floor((Date.now() + readTtlMs) / 1000) * 1000;
      const publicUrl = await storage.urlOf(storageKey, readTtlMs);
      return {
        fileId,
        uploadUrl: signed.url,
        method: 'PUT' as const,
        headers: signed.headers,
        publicUrl,
        url: publicUrl,
        storagePath: storageKey,
        maxBytes: sizeBytes ?? maxBytes,
        expiresAt: isoTime(signed.expiresAtMs),
        publicUrlExpiresAt: isoTime(readableUntilMs),
      };
    },
  }),
});

/** The type that the request names, by itself or by the file's name; undefined when it names none. */
function agreedType(wanted: z.infer<typeof wish>): MediaType | undefined {
  const accepted = mediaTypes.map((type) => type.contentType).join(', ');
  const refuse = (path: string): never => {
    throw fieldError('UNSUPPORTED_MEDIA_TYPE', path, `accepted are ${accepted}`);
  };
  if (wanted.contentType !== undefined) {
    return mediaTypeOf(wanted.contentType) ?? refuse('contentType');
  }
  const [, extension] = /\.([^./\\]+)$/.exec(wanted.filename ?? '') ?? [];
  if (extension === undefined) return undefined;
  return mediaTypeOfExtension(extension) ?? refuse('filename');
}
