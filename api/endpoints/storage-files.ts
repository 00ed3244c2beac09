/** /api/v1/storage/files: lists and deletes artifacts and uploads. */
import { z } from 'zod';
import { buildDisposition } from '../../storage/file-names.ts';
import { contentTypeOf, type Storage } from '../../storage/storage.ts';
import { extractFileTitle, type StoredFile } from '../../storage/stored-files.ts';
import { contentCredentials } from '../../domain/job-record.ts';
import { GatewayError } from '../../domain/errors.ts';
import { isoTime } from '../../domain/json.ts';
import { creditsSchema, jobSchema } from '../../studio/jobs/job-view.ts';
import { toData, dataSchema, pageSchema, pathId, time } from './fields.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';

/** Validity period of the URLs in a list, in milliseconds. */
const urlTtlMs = 24 * 3_600_000;
const viewerError = 'A viewer may not delete files.';

const fileSchema = z
  .object({
    kind: z
      .enum(['artifact', 'upload'])
      .meta({ description: '`artifact`: output of a job; `upload`: file that was uploaded.' }),
    fileId: z
      .string()
      .nullable()
      .meta({ description: 'Id with which an upload can be deleted; null for an artifact.' }),
    jobId: z.string().nullable().meta({
      description:
        'Job that created the artifact; to delete the artifact, delete the outputs of that job. Null for an upload.',
    }),
    storagePath: z.string(),
    contentType: z.string().nullable(),
    sizeBytes: z.int().nullable(),
    filename: z.string().nullable(),
    convertedFrom: z.string().nullable().meta({
      description:
        'Format of an upload before it was converted to JPEG or PNG, e.g. `HEIC`; null for other files.',
    }),
    contentCredentials: contentCredentials.nullable().meta({
      description: 'Mark of generated media in an artifact; null for an upload.',
    }),
    complete: z.boolean().meta({
      description: 'False if an upload URL was created and no file has been uploaded yet.',
    }),
    url: z.url().nullable().meta({ description: 'URL of the file, valid until `expiresAt`.' }),
    expiresAt: time.nullable(),
    createdAt: time,
  })
  .meta({ id: 'File' });

const query = z.strictObject({
  kind: fileSchema.shape.kind.optional(),
  limit: z.coerce.number().int().min(1).max(100).default(20),
  cursor: z
    .string()
    .regex(/^[\w-]{1,250}$/, 'must be the nextCursor of an earlier page')
    .optional()
    .meta({ description: '`nextCursor` of the previous page.' }),
});

/** Endpoints that list and delete stored files. */
export const storedFiles = defineSection('Storage', {
  listFiles: defineEndpoint({
    route: 'GET /api/v1/storage/files',
    scope: 'studio:read',
    allowsTokens: true,
    bucket: 'polls',
    summary: 'List files, newest first: job outputs and uploads',
    request: { query },
    response: pageSchema(fileSchema),
    async handle({ caller, query: { kind, limit, cursor } }, { storedFiles: files, storage }) {
      const page = await files.list(caller, { kind, limit, cursor });
      const data = await Promise.all(
        page.files.map((storedFile) => formatFile(storedFile, storage)),
      );
      return { ...toData(data), hasMore: page.nextCursor !== null, nextCursor: page.nextCursor };
    },
  }),

  deleteFile: defineEndpoint({
    route: 'DELETE /api/v1/storage/files/:fileId',
    scope: 'files:delete',
    allowsTokens: true,
    viewerError,
    summary: 'Delete an uploaded file',
    description:
      'The deleted file no longer counts toward the storage quota, its URL returns 404, and jobs that have not read it yet fail. Deleting it again has no effect.',
    request: { params: z.object({ fileId: pathId('upload') }) },
    response: dataSchema(z.object({ fileId: z.string(), deletedAt: time })),
    errors: ['NOT_FOUND'],
    async handle({ caller, params: { fileId } }, { uploads }) {
      const deletedAtMs = await uploads.delete(fileId, caller.organizationId);
      if (deletedAtMs === null) throw new GatewayError('NOT_FOUND', 'No such upload.');
      return toData({ fileId, deletedAt: isoTime(deletedAtMs) });
    },
  }),

  deleteJobMedia: defineEndpoint({
    route: 'DELETE /api/v1/studio/jobs/:jobId/media',
    scope: 'files:delete',
    allowsTokens: true,
    viewerError,
    summary: 'Delete the outputs of a job',
    description:
      'The job, its request and its billing remain. `result` of the job becomes null, and `mediaDeletedAt` is set. A chat job also loses the prompt. Deleting the outputs again has no effect.',
    request: { params: z.object({ jobId: pathId('job') }) },
    response: dataSchema(jobSchema).extend({ credits: creditsSchema }),
    errors: ['JOB_NOT_FOUND', 'JOB_ARCHIVED', 'JOB_NOT_DONE'],
    async handle(
      { caller: { organizationId }, params: { jobId } },
      { reads, storedFiles: files, chatJobs, view },
    ) {
      const job = await reads.read(organizationId, jobId);
      if (!job) throw new GatewayError(await reads.missing(organizationId, jobId));
      if (job.status === 'open') throw new GatewayError('JOB_NOT_DONE');
      await chatJobs.hide(jobId);
      await files.deleteMedia(jobId);
      const updatedJob = (await reads.read(organizationId, jobId)) ?? job;
      return { ...toData(await view.resource(updatedJob)), credits: view.credits(updatedJob) };
    },
  }),
});

async function formatFile(
  storedFile: StoredFile,
  storage: Pick<Storage, 'urlOf'>,
): Promise<z.infer<typeof fileSchema>> {
  const { storageKey, createdAtMs, createdAtMicros: _, request: __, ...fields } = storedFile;
  const expiresAtMs = Date.now() + urlTtlMs;
  const contentType = fields.contentType ?? contentTypeOf(storageKey);
  const text = extractFileTitle(storedFile);
  const disposition = buildDisposition({ storageKey, contentType, text });
  return {
    ...fields,
    storagePath: storageKey,
    url: storedFile.complete ? await storage.urlOf(storageKey, urlTtlMs, { disposition }) : null,
    expiresAt: storedFile.complete ? isoTime(expiresAtMs) : null,
    createdAt: isoTime(createdAtMs),
  };
}
