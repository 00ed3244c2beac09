/** /api/v1/storage/files: the organization's files, artifacts and uploads; and deleting a job's media. */
import { z } from 'zod';
import type { KeptFile } from '../../activities/storage/kept-files.ts';
import { GatewayError } from '../../domain/errors.ts';
import { isoTime } from '../../domain/iso-time.ts';
import { creditsSchema, jobSchema } from '../../studio/job-view.ts';
import { found, oneOf, pageOf, pathId, time } from './fields.ts';
import { defineOperation, section } from './operation.ts';

/** How long the URLs of a list read. */
const urlTtlMs = 24 * 3_600_000;
const refusesViewers = 'A viewer may not delete files.';

const file = z
  .object({
    kind: z
      .enum(['artifact', 'upload'])
      .meta({ description: 'Made by a job, or uploaded by you.' }),
    fileId: z.string().nullable().meta({ description: 'Of an upload: delete it by this id.' }),
    jobId: z
      .string()
      .nullable()
      .meta({ description: 'Of an artifact: it is deleted with the media of this job.' }),
    storagePath: z.string(),
    contentType: z.string().nullable(),
    sizeBytes: z.int().nullable(),
    filename: z.string().nullable(),
    complete: z
      .boolean()
      .meta({ description: 'False: an upload URL was made, but no file has arrived.' }),
    url: z.url().nullable().meta({ description: 'The file can be read here until `expiresAt`.' }),
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
    .meta({ description: '`nextCursor` of the page before.' }),
});

/** List, delete. */
export const storageFiles = section('Storage', {
  listFiles: defineOperation({
    route: 'GET /api/v1/storage/files',
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'List files, newest first: what jobs made and what was uploaded',
    request: { query },
    answer: pageOf(file),
    async handle({ caller, query: wanted }, { keptFiles, storage }) {
      const { kind, limit, cursor } = wanted;
      const page = await keptFiles.list(caller.organizationId, { kind, limit, cursor });
      const data = await Promise.all(page.files.map((each) => view(each, storage)));
      return { ...found(data), hasMore: page.nextCursor !== null, nextCursor: page.nextCursor };
    },
  }),

  deleteFile: defineOperation({
    route: 'DELETE /api/v1/storage/files/:fileId',
    scope: 'files:delete',
    refusesViewers,
    summary: 'Delete an uploaded file',
    description:
      'It no longer counts toward the quota, its URL answers 404, and jobs that have not read it yet fail. Deleting again changes nothing.',
    request: { params: z.object({ fileId: pathId('upload') }) },
    answer: oneOf(z.object({ fileId: z.string(), deletedAt: time })),
    errors: ['NOT_FOUND'],
    async handle({ caller, params: { fileId } }, { uploads }) {
      const deletedAtMs = await uploads.delete(fileId, caller.organizationId);
      if (deletedAtMs === null) throw new GatewayError('NOT_FOUND', 'No such upload.');
      return found({ fileId, deletedAt: isoTime(deletedAtMs) });
    },
  }),

  deleteJobMedia: defineOperation({
    route: 'DELETE /api/v1/studio/jobs/:jobId/media',
    scope: 'files:delete',
    refusesViewers,
    summary: 'Delete what a job made',
    description:
      'The job, its request and its billing stay; its `result` is null and `mediaDeletedAt` says when. Deleting again changes nothing.',
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
  const { storageKey, createdAtMs, createdAtMicros: _, ...told } = each;
  const expiresAtMs = Date.now() + urlTtlMs;
  return {
    ...told,
    storagePath: storageKey,
    url: each.complete ? await storage.urlOf(storageKey, urlTtlMs) : null,
    expiresAt: each.complete ? isoTime(expiresAtMs) : null,
    createdAt: isoTime(createdAtMs),
  };
}
