/**
 * /api/v1/storage: signed URLs for uploads (spec §4.5, design §7), and the files of the organization: artifacts of jobs
 * and uploads. Also deletes the media of a job.
 */
import { z } from 'zod';
import type { KeptFile } from '../../storage/kept-files.ts';
import {
  mediaTypeOf,
  mediaTypeOfExtension,
  mediaTypes,
  bytesMaxOf,
  type MediaType,
} from '../../storage/media.ts';
import { untypedExtension } from '../../storage/storage.ts';
import { GatewayError, fieldError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { isoTime } from '../../domain/json.ts';
import { received } from '../../domain/field-messages.ts';
import { creditsSchema, jobSchema } from '../../studio/job-view.ts';
import { found, oneOf, pageOf, pathId, time } from './fields.ts';
import { defineEndpoint, section } from './endpoint.ts';

/** Time for which the URLs of a list are valid, in milliseconds. */
const urlTtlMs = 24 * 3_600_000;
const refusesViewers = 'A viewer may not delete files.';

const file = z
  .object({
    kind: z
      .enum(['artifact', 'upload'])
      .meta({ description: '`artifact`: output of a job; `upload`: uploaded by you.' }),
    fileId: z
      .string()
      .nullable()
      .meta({ description: 'Id for deleting an upload; null for an artifact.' }),
    jobId: z.string().nullable().meta({
      description:
        'Job of an artifact, which is deleted with the media of the job; null for an upload.',
    }),
    storagePath: z.string(),
    contentType: z.string().nullable(),
    sizeBytes: z.int().nullable(),
    filename: z.string().nullable(),
    complete: z.boolean().meta({
      description: 'False if an upload URL was created and no file has been uploaded yet.',
    }),
    url: z.url().nullable().meta({ description: 'URL of the file, valid until `expiresAt`.' }),
    expiresAt: time.nullable(),
    createdAt: time,
  })
  .meta({ id: 'File' });

const query = z.strictObject({
  kind: file.shape.kind.optional(),
  limit: z.coerce.number().int().min(1).max(100).default(20),
  cursor: z
    .string()
    .regex(/^[\w-]{1,250}$/, 'must be the nextCursor of a page')
    .optional()
    .meta({ description: '`nextCursor` of the previous page.' }),
});

const uploadRequest = z.strictObject({
  filename: z.string().min(1).max(255).optional(),
  contentType: z.string().min(1).max(127).optional(),
  size: z.int().min(1).optional(),
  purpose: z
    .string()
    .max(64)
    .regex(/^[a-z0-9_-]{1,64}$/, 'must be 1–64 of a–z, 0–9, _ and -')
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
    expiresAt: time.meta({ description: 'Time until which `uploadUrl` accepts the file, once.' }),
    publicUrlExpiresAt: time.meta({
      description: 'Time until which the file can be read from `publicUrl`.',
    }),
  })
  .meta({ id: 'UploadUrl' });

/** Endpoints on files. */
export const storageFiles = section('Storage', {
  createUploadUrl: defineEndpoint({
    route: 'POST /api/v1/storage/upload-url',
    scope: 'storage:write',
    summary: 'Get a signed URL to upload a file',
    description:
      'The URL accepts a single PUT with exactly the requested size and type. ' +
      'Images may have up to 25 MB, audio up to 100 MB, video up to 200 MB. ' +
      'An organization has a storage quota (`storage` of /usage). A file that no request uses for 30 days ' +
      '(configurable) is deleted.',
    request: {
      body: uploadRequest,
      bodyIsOptional: true,
      example: { filename: 'cat.png', contentType: 'image/png', size: 48_213 },
    },
    answer: uploadUrl,
    answers: { 200: 'The URL to upload the file to, and the URL to read it from.' },
    errors: ['FILE_TOO_LARGE', 'STORAGE_QUOTA_EXCEEDED'],
    async handle({ caller, body }, { storage, uploads, config }) {
      const type = typeOf(body);
      const maxBytes = bytesMaxOf(type?.contentType ?? null);
      const sizeBytes = body.size ?? null;
      if (sizeBytes !== null && sizeBytes > maxBytes) {
        const message = `must be at most ${maxBytes} bytes${received(sizeBytes)}`;
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
        filename: body.filename ?? null,
        purpose: body.purpose ?? null,
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

  listFiles: defineEndpoint({
    route: 'GET /api/v1/storage/files',
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'List files, newest first: job outputs and uploads',
    request: { query },
    answer: pageOf(file),
    async handle({ caller, query: { kind, limit, cursor } }, { keptFiles, storage }) {
      const page = await keptFiles.list(caller.organizationId, { kind, limit, cursor });
      const data = await Promise.all(page.files.map((each) => view(each, storage)));
      return { ...found(data), hasMore: page.nextCursor !== null, nextCursor: page.nextCursor };
    },
  }),

  deleteFile: defineEndpoint({
    route: 'DELETE /api/v1/storage/files/:fileId',
    scope: 'files:delete',
    refusesViewers,
    summary: 'Delete an uploaded file',
    description:
      'The file no longer counts toward the quota, its URL returns 404, and jobs that have not read it yet fail. Deleting it again changes nothing.',
    request: { params: z.object({ fileId: pathId('upload') }) },
    answer: oneOf(z.object({ fileId: z.string(), deletedAt: time })),
    errors: ['NOT_FOUND'],
    async handle({ caller, params: { fileId } }, { uploads }) {
      const deletedAtMs = await uploads.delete(fileId, caller.organizationId);
      if (deletedAtMs === null) throw new GatewayError('NOT_FOUND', 'No such upload.');
      return found({ fileId, deletedAt: isoTime(deletedAtMs) });
    },
  }),

  deleteJobMedia: defineEndpoint({
    route: 'DELETE /api/v1/studio/jobs/:jobId/media',
    scope: 'files:delete',
    refusesViewers,
    summary: 'Delete the outputs of a job',
    description:
      'The job, its request and its billing remain. Its `result` becomes null and `mediaDeletedAt` is set. Deleting again changes nothing.',
    request: { params: z.object({ jobId: pathId('job') }) },
    answer: oneOf(jobSchema).extend({ credits: creditsSchema }),
    errors: ['JOB_NOT_FOUND', 'JOB_NOT_DONE'],
    async handle(
      { caller: { organizationId }, params: { jobId } },
      { reads, keptFiles, view: shown },
    ) {
      const job = await reads.read(organizationId, jobId);
      if (!job) throw new GatewayError('JOB_NOT_FOUND');
      if (job.status === 'queued') throw new GatewayError('JOB_NOT_DONE');
      await keptFiles.deleteMedia(jobId);
      const now = (await reads.read(organizationId, jobId)) ?? job;
      return { ...found(await shown.resource(now)), credits: shown.credits(now) };
    },
  }),
});

async function view(
  each: KeptFile,
  storage: { urlOf: (key: string, ttlMs: number) => Promise<string> },
): Promise<z.infer<typeof file>> {
  const { storageKey, createdAtMs, createdAtMicros: _, ...fields } = each;
  const expiresAtMs = Date.now() + urlTtlMs;
  return {
    ...fields,
    storagePath: storageKey,
    url: each.complete ? await storage.urlOf(storageKey, urlTtlMs) : null,
    expiresAt: each.complete ? isoTime(expiresAtMs) : null,
    createdAt: isoTime(createdAtMs),
  };
}

/**
 * Returns the media type of a request, by its `contentType` or the extension of its `filename`; undefined if it has
 * neither.
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE
 */
function typeOf({ contentType, filename }: z.infer<typeof uploadRequest>): MediaType | undefined {
  const accepted = mediaTypes.map((type) => type.contentType).join(', ');
  const refuse = (path: string): never => {
    throw fieldError('UNSUPPORTED_MEDIA_TYPE', path, `must be one of ${accepted}`);
  };
  if (contentType !== undefined) {
    return mediaTypeOf(contentType) ?? refuse('contentType');
  }
  const [, extension] = /\.([^./\\]+)$/.exec(filename ?? '') ?? [];
  if (extension === undefined) return undefined;
  return mediaTypeOfExtension(extension) ?? refuse('filename');
}
