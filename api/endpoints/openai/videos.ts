/** /api/v1/videos: creates (videoGenerate), gets, lists and downloads videos as in OpenAI's API. */
import { z } from 'zod';
import type { JobRecord } from '../../../studio/jobs/job-reads.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { videoGenerate } from '../../../studio/capabilities/video-generate.ts';
import type { Composition } from '../../composition.ts';
import { submitRequest } from '../studio-requests.ts';
import { openaiListOf, pathId, showInTurns, toOpenaiList } from '../fields.ts';
import { defineEndpoint, rawResponse } from '../endpoint.ts';
import { findJob, jobRequest as request } from '../studio-jobs.ts';
import { fileErrors, studioErrors, studioHeaders, setCreditsHeaders } from '../studio-results.ts';
import { withRenamedFields } from './field-names.ts';
import { fileAnswers } from '../../http/stored-file.ts';
import { fileHeaders, sendArtifact } from './finished-job.ts';
import { readVideoRequest, videoFields, videoRequest } from './video-requests.ts';
import { video, toVideo } from './video-resource.ts';

/** Finds a video job. @throws GatewayError JOB_NOT_FOUND if the job is not a video */
async function findVideo(
  call: Parameters<typeof findJob>[0],
  services: Pick<Composition, 'reads'>,
): Promise<JobRecord> {
  const job = await findJob(call, services);
  if (job.type !== videoGenerate.type) throw new GatewayError('JOB_NOT_FOUND');
  return job;
}

const imageFile = z.string().meta({ format: 'binary' });

/** Endpoints compatible with OpenAI's videos API. */
export const videos = {
  createVideo: defineEndpoint({
    route: 'POST /api/v1/videos',
    scope: 'studio:video',
    errorFormat: 'openai',
    summary: 'Generate a video (OpenAI-compatible)',
    description:
      'Creates the same job as POST /api/v1/studio/video/generate. Fields that are not listed here are ignored.',
    request: {
      headers: studioHeaders,
      content: {
        'application/json': {
          schema: videoRequest,
          example: { prompt: 'waves at night', model: 'veo', seconds: '4' },
        },
        'multipart/form-data': {
          schema: z.object({ ...videoFields, input_reference: imageFile.optional() }),
        },
      },
    },
    response: video,
    errors: [...studioErrors, ...fileErrors],
    async handle({ ctx }, services) {
      const { view } = services;
      const reader = { capability: videoGenerate, readBody: readVideoRequest };
      const { job } = await withRenamedFields(() => submitRequest(ctx, reader, services));
      setCreditsHeaders(ctx, view.credits(job));
      return toVideo(job, view);
    },
  }),

  getVideo: defineEndpoint({
    route: 'GET /api/v1/videos/:jobId',
    scope: 'studio:read',
    bucket: 'polls',
    errorFormat: 'openai',
    summary: 'Get a video (OpenAI-compatible)',
    request,
    response: video,
    errors: ['JOB_NOT_FOUND', 'JOB_ARCHIVED'],
    handle: async (call, services) => toVideo(await findVideo(call, services), services.view),
  }),

  listVideos: defineEndpoint({
    route: 'GET /api/v1/videos',
    scope: 'studio:read',
    bucket: 'polls',
    errorFormat: 'openai',
    summary: 'List videos, newest first (OpenAI-compatible)',
    request: {
      query: z.object({
        after: pathId('job').optional(),
        limit: z.coerce.number().int().min(1).max(100).default(20),
        order: z.literal('desc', 'must be desc: videos are listed newest first').optional(),
      }),
    },
    response: openaiListOf(video),
    async handle({ caller, query: { after, limit } }, { reads, view }) {
      const rows = await reads.list(caller.organizationId, {
        type: videoGenerate.type,
        beforeId: after,
        limit: limit + 1,
      });
      const page = rows.slice(0, limit);
      const data = await showInTurns(caller.organizationId, page, (job) => toVideo(job, view));
      return toOpenaiList(data, rows.length > limit);
    },
  }),

  getVideoContent: defineEndpoint({
    route: 'GET /api/v1/videos/:jobId/content',
    scope: 'studio:read',
    errorFormat: 'openai',
    summary: 'Download a video (OpenAI-compatible)',
    request: {
      ...request,
      query: z.object({
        variant: z.literal('video', 'must be video: other variants are not stored').optional(),
      }),
    },
    response: rawResponse,
    responses: {
      200: {
        description: 'The video file.',
        type: 'video/mp4',
        headers: fileHeaders,
        schema: z.string().meta({ format: 'binary' }),
      },
      ...fileAnswers,
    },
    errors: ['JOB_NOT_FOUND', 'JOB_ARCHIVED', 'JOB_NOT_DONE', 'NOT_FOUND', 'RANGE_NOT_SATISFIABLE'],
    async handle({ ctx, ...call }, services) {
      const job = await findVideo(call, services);
      if (job.status === 'open') throw new GatewayError('JOB_NOT_DONE');
      await sendArtifact(ctx, job, services);
    },
  }),
};
