/** /api/v1/studio/jobs/events and …/{jobId}/timeline: what a console shows beside the list of jobs. */
import { PassThrough } from 'node:stream';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import { stepSchema, stepsOf } from '../studio/job-steps.ts';
import { found, oneOf, pathId, time } from './fields.ts';
import { defineOperation, ownAnswer, section } from './operation.ts';

const path = '/api/v1/studio/jobs';

const timeline = z
  .object({
    jobId: z.string(),
    request: z.record(z.string(), z.unknown()).meta({ description: 'As it was accepted.' }),
    createdAt: time,
    steps: z.array(stepSchema),
  })
  .meta({ id: 'JobTimeline' });

/** Before the operations of one job: their paths would take the word `events` for an id. */
export const studioJobEvents = section('Jobs', {
  streamJobs: defineOperation({
    route: `GET ${path}/events`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'Follow all jobs of the organization',
    description:
      'Server-sent events named `job`, each with the job resource: the jobs that are open, then each that begins, goes on or ends. ' +
      'The stream ends when its key may no longer read, or when something may have been missed: connect again and read the list.',
    answer: ownAnswer,
    answers: {
      200: {
        description: 'Events.',
        type: 'text/event-stream',
        schema: z.object({ event: z.literal('job'), data: z.string() }),
      },
    },
    handle({ ctx, caller }, { jobFeed }) {
      const events = new PassThrough();
      const { organizationId, keyId } = caller;
      jobFeed.follow({ organizationId, keyId, events });
      ctx.set({
        'Content-Type': 'text/event-stream',
        'Cache-Control': 'no-cache, no-transform',
        'X-Accel-Buffering': 'no',
      });
      ctx.status = 200;
      ctx.body = events;
    },
  }),

  getJobTimeline: defineOperation({
    route: `GET ${path}/:jobId/timeline`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'Look at the request of a job and at its steps with their times',
    request: { params: z.object({ jobId: pathId('job') }) },
    answer: oneOf(timeline),
    errors: ['JOB_NOT_FOUND'],
    async handle({ caller, params: { jobId } }, { reads, readCalls, webhooks }) {
      const { organizationId } = caller;
      const job = await reads.read(organizationId, jobId);
      if (!job) throw new GatewayError('JOB_NOT_FOUND');
      const [calls, webhook] = await Promise.all([
        readCalls(jobId),
        webhooks.find({ jobId, organizationId }),
      ]);
      const createdAt = new Date(job.created_at).toISOString();
      return found({ jobId, request: job.request, createdAt, steps: stepsOf(job, calls, webhook) });
    },
  }),
});
