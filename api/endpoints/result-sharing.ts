/** Share links: show the result of a job to people without a key. */
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import { isoTime, toResponse } from '../../domain/json.ts';
import { publicBaseUrl } from '../../process/services.ts';
import { createJobReads } from '../../studio/jobs/job-reads.ts';
import { jobSchema } from '../../studio/jobs/job-view.ts';
import { createShareLinks, shareLink, shareLinksMax } from '../../studio/jobs/share-links.ts';
import { defineCreation } from './creation.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';
import {
  dataSchema,
  idField,
  pageSchema,
  pathId,
  responseSchema,
  time,
  toData,
  toPage,
} from './fields.ts';
import { findJob, jobPath, jobRequest } from './studio-jobs.ts';

const path = '/api/v1/studio/shares';
const daySeconds = 24 * 3600;
/** Maximum lifetime of the URLs of shared files in milliseconds, also after the link was revoked. */
const fileUrlTtlMs = 3_600_000;

const resource = responseSchema(shareLink).meta({ id: 'ShareLink' });
const viewerError = 'A viewer may not share results.';

/** Endpoints that create, list, revoke and open share links. */
export const shareLinks = defineSection('Jobs', {
  shareJob: defineCreation({
    route: `POST ${jobPath}/:jobId/share`,
    scope: 'studio:read',
    viewerError,
    summary: 'Share the result of a completed job',
    description:
      'Everybody with the URL sees the files and data of the result, but neither the request nor its price, until the link expires or is revoked. The names of files contain the beginning of the prompt. ' +
      `A job can have at most ${shareLinksMax} links at the same time.`,
    request: {
      ...jobRequest,
      body: z.strictObject({
        expiresInSeconds: z
          .int()
          .min(60)
          .max(90 * daySeconds)
          .default(7 * daySeconds)
          .meta({ description: 'Lifetime of the link; seven days by default.' }),
      }),
      example: { expiresInSeconds: daySeconds },
    },
    response: dataSchema(resource.extend({ url: z.url() })),
    created:
      'The link. Its URL is shown only here, and in the answers to repeated requests with the same Idempotency-Key.',
    errors: [
      'JOB_NOT_FOUND',
      'JOB_ARCHIVED',
      'JOB_NOT_DONE',
      'NO_RESULT',
      'MEDIA_DELETED',
      'SHARE_QUOTA_REACHED',
    ],
    async create({ body: { expiresInSeconds }, ...call }, services, connection) {
      const job = await findJob(call, { reads: createJobReads(connection) });
      if (job.status === 'open') throw new GatewayError('JOB_NOT_DONE');
      if (job.mediaDeletedAtMs !== null) throw new GatewayError('MEDIA_DELETED');
      if (!(await services.view.sharedResult(job, fileUrlTtlMs)))
        throw new GatewayError('NO_RESULT');
      const { organizationId, keyId } = call.caller;
      const shared = { organizationId, keyId, jobId: job.id, expiresInSeconds };
      const { link, token } = await createShareLinks(connection).create(shared);
      // Browsers send the fragment of a URL neither to servers nor in the Referer header.
      const url = `${publicBaseUrl(services.config)}/console/share#${token}`;
      return toData({ ...toResponse(link), url });
    },
  }),

  listShareLinks: defineEndpoint({
    route: `GET ${path}`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'List share links, newest first',
    request: {
      query: z.strictObject({
        jobId: idField('job').optional().meta({ description: 'Only links of this job.' }),
        limit: z.coerce.number().int().min(1).max(100).default(20),
        cursor: idField('shareLink')
          .optional()
          .meta({ description: '`nextCursor` of the previous page.' }),
      }),
    },
    response: pageSchema(resource),
    async handle({ caller: { organizationId }, query }, { pool }) {
      const { jobId, limit, cursor } = query;
      const filter = { organizationId, jobId, beforeId: cursor, limit: limit + 1 };
      const rows = await createShareLinks(pool).list(filter);
      return toPage(rows, { limit, cursor: 'shareId', show: (row) => toResponse(row) });
    },
  }),

  revokeShareLink: defineEndpoint({
    route: `DELETE ${path}/:shareId`,
    scope: 'studio:read',
    viewerError,
    summary: 'Revoke a share link',
    description: 'URLs of files that were opened before stay valid for at most one hour.',
    request: { params: z.object({ shareId: pathId('shareLink') }) },
    response: dataSchema(resource),
    errors: ['NOT_FOUND'],
    handle: async ({ caller: { organizationId }, params: { shareId } }, { pool }) =>
      toData(toResponse(await createShareLinks(pool).revoke(organizationId, shareId))),
  }),

  openShareLink: defineEndpoint({
    route: `POST ${path}/open`,
    scope: 'open',
    summary: 'Open a share link',
    description: 'The token is the part of the URL after `#`.',
    request: {
      body: z.strictObject({ token: z.string().max(64) }),
      example: { token: 'kXl8Qd0vJ4r1cZt6mWq3bE9yUo5gHs2nFa7iPxTLRVk' },
    },
    response: dataSchema(
      jobSchema
        .pick({ type: true, model: true, completedAt: true })
        .extend({ result: jobSchema.shape.result.unwrap(), expiresAt: time })
        .meta({ id: 'SharedResult' }),
    ),
    errors: ['NOT_FOUND', 'SHARE_ENDED', 'MEDIA_DELETED'],
    async handle({ ctx, body: { token } }, { pool, reads, view }) {
      ctx.set('Cache-Control', 'no-store');
      const { organizationId, jobId, expiresAtMs } = await createShareLinks(pool).open(token);
      const job = await reads.read(organizationId, jobId);
      const urlTtlMsMax = Math.min(fileUrlTtlMs, expiresAtMs - Date.now());
      const result = job && (await view.sharedResult(job, urlTtlMsMax));
      if (!result) throw new GatewayError('MEDIA_DELETED');
      const { type, model, completedAtMs } = job;
      const completedAt = isoTime(completedAtMs);
      return toData({ type, model, completedAt, result, expiresAt: isoTime(expiresAtMs) });
    },
  }),
});
