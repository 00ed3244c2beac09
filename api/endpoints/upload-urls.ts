/** POST /api/v1/storage/upload-url: creates signed URLs for uploads (spec §4.5). */
import { z } from 'zod';
import {
  findMediaType,
  findUploadBytesMax,
  listAccepted,
  type MediaType,
} from '../../storage/media-types.ts';
import { findRefused } from '../../storage/refused-formats.ts';
import { untypedExtension } from '../../storage/storage.ts';
import { fieldError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { isoTime } from '../../domain/json.ts';
import { formatReceived } from '../../domain/field-messages.ts';
import { time } from './fields.ts';
import { defineCreation } from './creation.ts';
import { defineSection } from './endpoint.ts';

/** Lifetime of an upload URL: a form in a browser and a slow line, but no reuse of a leaked URL. */
const uploadUrlTtlMs = 600_000;
/** Lifetime of the URL with which an upload is read: the limit of S3 signatures. */
const readUrlTtlMs = 604_800_000;

const uploadRequest = z.strictObject({
  filename: z.string().min(1).max(255).optional(),
  contentType: z.string().min(1).max(127).optional(),
  size: z.int().min(1).optional(),
  purpose: z
    .string()
    .max(64)
    .regex(/^[a-z0-9_-]{1,64}$/, 'must be 1–64 characters of a–z, 0–9, _ and -')
    .optional(),
});

const uploadUrl = z
  .object({
    fileId: z
      .string()
      .meta({ description: 'Id of the file, for requests that accept a `fileId`.' }),
    uploadUrl: z.url(),
    method: z.literal('PUT'),
    headers: z
      .record(z.string(), z.string())
      .meta({ description: 'Headers to send with the file, unchanged.' }),
    publicUrl: z.url().meta({
      description: 'URL from which the file can be read for seven days, without an API key.',
    }),
    url: z.url().meta({ description: 'The same as `publicUrl`.' }),
    storagePath: z.string(),
    maxBytes: z.int(),
    expiresAt: time.meta({
      description: 'Time when `uploadUrl` expires. The URL accepts a file only once.',
    }),
    publicUrlExpiresAt: time.meta({
      description: 'Time when `publicUrl` expires.',
    }),
  })
  .meta({ id: 'UploadUrl' });
export type UploadUrl = z.infer<typeof uploadUrl>;

/** Endpoint that creates upload URLs. */
export const uploadUrls = defineSection('Storage', {
  createUploadUrl: defineCreation({
    route: 'POST /api/v1/storage/upload-url',
    scope: 'storage:write',
    allowsTokens: true,
    viewerError: 'A viewer may not upload files.',
    summary: 'Get a signed URL to upload a file',
    description:
      'The URL accepts a single PUT with exactly the requested size and type. ' +
      'Images may be up to 25 MB, audio up to 100 MB, video up to 200 MB. ' +
      'Files count toward the storage quota of the organization (`storage` of /usage). A file that no request uses for 30 days ' +
      '(configurable) is deleted.',
    request: {
      body: uploadRequest,
      example: { filename: 'cat.png', contentType: 'image/png', size: 48_213 },
    },
    response: uploadUrl,
    created: 'The URL for the upload, and the URL from which the file can be read.',
    errors: ['FILE_TOO_LARGE', 'STORAGE_QUOTA_EXCEEDED'],
    async create({ caller, body }, { storage, uploads }, connection) {
      const type = findDeclaredType(body);
      const maxBytes = findUploadBytesMax(type?.contentType ?? null);
      const sizeBytes = body.size ?? null;
      if (sizeBytes !== null && sizeBytes > maxBytes) {
        const message = `must be at most ${maxBytes} bytes${formatReceived(sizeBytes)}`;
        throw fieldError('FILE_TOO_LARGE', 'size', message);
      }
      const { organizationId, keyId, token } = caller;
      const fileId = newId('upload');
      // A converted file is stored as JPEG; until then, its bytes decide what it is.
      const stored = type?.isConverted ? findMediaType('jpg') : type;
      const declared = type?.isConverted ? undefined : type;
      const storageKey = `${organizationId}/${fileId}.${stored?.extension ?? untypedExtension}`;
      const signedUpload = await storage.signUpload({
        key: storageKey,
        sizeBytes,
        ttlMs: uploadUrlTtlMs,
      });
      await uploads.create(connection, {
        id: fileId,
        organizationId,
        keyId,
        token,
        storageKey,
        contentType: declared?.contentType ?? null,
        sizeBytes,
        bytesMax: sizeBytes ?? maxBytes,
        convertedFrom: null,
        filename: body.filename ?? null,
        purpose: body.purpose ?? null,
        expiresAtMs: signedUpload.expiresAtMs,
      });
      const readableUntilMs = Math.floor((Date.now() + readUrlTtlMs) / 1000) * 1000;
      const publicUrl = await storage.urlOf(storageKey, readUrlTtlMs);
      return {
        fileId,
        uploadUrl: signedUpload.url,
        method: 'PUT' as const,
        headers: signedUpload.headers,
        publicUrl,
        url: publicUrl,
        storagePath: storageKey,
        maxBytes: sizeBytes ?? maxBytes,
        expiresAt: isoTime(signedUpload.expiresAtMs),
        publicUrlExpiresAt: isoTime(readableUntilMs),
      };
    },
  }),
});

function reject(path: string, found: string): never {
  const refused = findRefused(found);
  const remedy = refused ? `; ${refused.advice}` : '';
  const name = refused?.name ?? found;
  const message = `is ${name}; accepted are ${listAccepted()}${remedy}`;
  throw fieldError('UNSUPPORTED_MEDIA_TYPE', path, message);
}

/** Extensions and subtypes of files that contain text or code, never media. */
const textFormats = new Set(['svg', 'svg+xml', 'html', 'htm', 'xhtml', 'xml', 'js', 'json', 'txt']);

/**
 * Returns the media type that a request declares by its `contentType`, or otherwise by the
 * extension of its `filename`. Returns undefined if it declares none that the gateway knows: the
 * bytes of the file decide.
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE for what cannot be media
 */
function findDeclaredType({
  contentType,
  filename,
}: z.infer<typeof uploadRequest>): MediaType | undefined {
  if (contentType !== undefined) {
    const name = contentType.split(';')[0]?.trim().toLowerCase() ?? '';
    const [medium = '', format = ''] = name.split('/');
    const isMedia = /^(image|audio|video)$/.test(medium) && !textFormats.has(format);
    if (!isMedia && name !== 'application/ogg' && name !== 'application/octet-stream') {
      return reject('contentType', name);
    }
    if (findRefused(name)) return reject('contentType', name);
    return findMediaType(contentType);
  }
  const [, written = ''] = /\.([^./\\]+)$/.exec(filename ?? '') ?? [];
  const extension = written.toLowerCase();
  if (textFormats.has(extension) || findRefused(extension)) return reject('filename', extension);
  return findMediaType(extension);
}
