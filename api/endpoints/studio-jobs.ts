/**
 * /api/v1/studio/jobs: get a job (with long polling), list, follow by events, timeline, cancel, webhook (design §4).
 */
import { PassThrough } from 'node:stream';
import type { ParameterizedContext } from 'koa';
import { z } from 'zod';
import type { JobRecord } from '../../jobs/records/job-reads.ts';
import { GatewayError } from '../../domain/errors.ts';
import { isoTime } from '../../domain/json.ts';
import { workflowIdOf } from '../../jobs/contract.ts';
import { correlate } from '../../platform/correlation.ts';
import { creditsSchema, jobSchema, type JobView } from '../../studio/job-view.ts';
import { scopeOf } from '../../studio/capability.ts';
import { findCapability } from '../../studio/registry.ts';
import type { Composition } from '../composition.ts';
import { authorize } from '../middleware/authenticate.ts';
import { stepSchema, stepsOf } from '../studio/job-steps.ts';
import { preferredWaitMs } from '../studio/job-submission.ts';
import {
  found,
  foundPage,
  oneOf,
  pageOf,
  pathId,
  time,
  jobType,
  recordFilter,
  recordFilterOf,
} from './fields.ts';
import { defineEndpoint, ownAnswer, section, type Call } from './endpoint.ts';
import { redeliver, showWebhook, webhookOf, webhookSchema } from './webhooks.ts';

const longPollMaxMs = 60_000;

const path = '/api/v1/studio/jobs';
const request = { params: z.object({ jobId: pathId('job') }) };
const listing = z.strictObject({
  status: z.enum(['queued', 'in_progress', 'completed', 'failed', 'canceled']).optional(),
  type: jobType.optional(),
  ...recordFilter,
  limit: z.coerce.number().int().min(1).max(100).default(20),
  cursor: z
    .string()
    .regex(/^job_[0-9a-f]{32}$/, 'must be the nextCursor of a page')
    .optional(),
});
const timeline = z
  .object({
    jobId: z.string(),
    request: z
      .record(z.string(), z.unknown())
      .meta({ description: 'The request as it was accepted.' }),
    createdAt: time,
    steps: z.array(stepSchema),
  })
  .meta({ id: 'JobTimeline' });
const oneJob = oneOf(jobSchema).extend({ credits: creditsSchema });

type NamesJob = Pick<Call<typeof request>, 'caller' | 'params'>;

async function find(
  { caller, params: { jobId } }: NamesJob,
  { reads }: Pick<Composition, 'reads'>,
): Promise<JobRecord> {
  const job = await reads.read(caller.organizationId, jobId);
  if (!job) throw new GatewayError('JOB_NOT_FOUND');
  correlate({ jobId, workflowId: workflowIdOf(jobId) });
  return job;
}

/** Description of an event stream, of one job or of all jobs. */
const eventsAnswer = {
  200: {
    description: 'The events.',
    type: 'text/event-stream',
    schema: z.object({ event: z.literal('job'), data: z.string() }),
  },
};

/**
 * Opens an event stream of one job; with `jobId` null, of all jobs.
 * @throws GatewayError 429 or SERVICE_UNAVAILABLE if too many streams are open
 */
function follow(
  ctx: ParameterizedContext,
  { caller, jobId }: { caller: NamesJob['caller']; jobId: string | null },
  { jobFeed, openWaits }: Pick<Composition, 'jobFeed' | 'openWaits'>,
): void {
  const { organizationId, keyId } = caller;
  const events = new PassThrough();
  events.once('close', openWaits.enter(caller));
  jobFeed.follow({ organizationId, keyId, jobId, events });
  ctx.set({
    'Content-Type': 'text/event-stream',
    'Cache-Control': 'no-cache, no-transform',
    'X-Accel-Buffering': 'no',
  });
  ctx.status = 200;
  ctx.body = events;
}

async function show(
  ctx: ParameterizedContext,
  view: JobView,
  job: JobRecord,
): Promise<z.infer<typeof oneJob>> {
  if (job.status === 'open') ctx.set('Retry-After', '2');
  return { ...found(await view.resource(job)), credits: view.credits(job) };
}

/** Endpoints of all jobs. Their routes precede those of one job, which would match `events` as a job id. */
const ofAllJobs = section('Jobs', {
  streamJobs: defineEndpoint({
    route: `GET ${path}/events`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'Follow all jobs of the organization',
    description:
      'Server-sent events named `job`, each with one job: first all open jobs, then every job that is created, changes or ends. ' +
      'The stream ends if the key loses access, or if an event may have been lost. Then connect again and list the jobs.',
    answer: ownAnswer,
    answers: eventsAnswer,
    handle({ ctx, caller }, services) {
      follow(ctx, { caller, jobId: null }, services);
    },
  }),
});

const jobs = section('Jobs', {
  getJobTimeline: defineEndpoint({
    route: `GET ${path}/:jobId/timeline`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'Get the request of a job and the times of its steps',
    request,
    answer: oneOf(timeline),
    errors: ['JOB_NOT_FOUND'],
    async handle(call, { reads, readCalls, webhooks }) {
      const job = await find(call, { reads });
      const [calls, webhook] = await Promise.all([
        readCalls(job.id),
        webhooks.find({ jobId: job.id, organizationId: call.caller.organizationId }),
      ]);
      const createdAt = isoTime(job.created_at);
      const steps = stepsOf(job, calls, webhook);
      return found({ jobId: job.id, request: job.request, createdAt, steps });
    },
  }),

  getJob: defineEndpoint({
    route: `GET ${path}/:jobId`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'Get a job',
    description:
      'With `wait`, the server responds when the job has ended, or after that number of seconds.',
    request: {
      ...request,
      query: z.strictObject({ wait: z.coerce.number().min(0).max(60).optional() }),
    },
    answer: oneJob,
    errors: ['JOB_NOT_FOUND'],
    async handle({ ctx, query, ...call }, { reads, admission, openWaits, view }) {
      const job = await find(call, { reads });
      const wait = (query.wait ?? 0) * 1000;
      const waitMs = ctx.get('prefer') ? preferredWaitMs(ctx, longPollMaxMs) : wait;
      const { organizationId } = call.caller;
      if (waitMs === 0 || job.status !== 'open') return show(ctx, view, job);
      const leave = openWaits.enter(call.caller);
      try {
        const awaited = await admission.awaitEnd({ organizationId, jobId: job.id }, waitMs);
        return await show(ctx, view, awaited ?? job);
      } finally {
        leave();
      }
    },
  }),

  listJobs: defineEndpoint({
    route: `GET ${path}`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'List jobs, newest first',
    request: { query: listing },
    answer: pageOf(jobSchema),
    async handle({ caller, query }, { reads, view }) {
      const rows = await reads.list(caller.organizationId, {
        status: query.status,
        type: query.type,
        ...recordFilterOf(query),
        beforeId: query.cursor,
        limit: query.limit + 1,
      });
      const { data, ...rest } = foundPage(rows, {
        limit: query.limit,
        cursor: 'id',
        show: view.resource,
      });
      return { ...rest, data: await Promise.all(data) };
    },
  }),

  streamJob: defineEndpoint({
    route: `GET ${path}/:jobId/events`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'Follow a job',
    description:
      'Server-sent events named `job`, each with the job. The stream ends when the job has ended.',
    request,
    answer: ownAnswer,
    answers: eventsAnswer,
    errors: ['JOB_NOT_FOUND'],
    async handle({ ctx, ...call }, services) {
      const { id: jobId } = await find(call, services);
      follow(ctx, { caller: call.caller, jobId }, services);
    },
  }),

  cancelJob: defineEndpoint({
    route: `POST ${path}/:jobId/cancel`,
    scope: 'studio:read',
    refusesViewers: 'A viewer may not cancel jobs.',
    summary: 'Cancel a job',
    description:
      'If no provider was called yet, the job is canceled and its credits are released. Otherwise the cancel is sent to the provider, whose response decides.',
    request,
    answer: oneJob,
    answers: { 200: 'The job has ended.', 202: 'The provider has not decided yet.' },
    errors: ['JOB_NOT_FOUND', 'JOB_ALREADY_DONE'],
    async handle({ ctx, ...call }, { reads, admission, view }) {
      const job = await find(call, { reads });
      const now = await admission.cancel(call.caller.organizationId, job);
      ctx.status = now.status === 'open' ? 202 : 200;
      return show(ctx, view, now);
    },
  }),
});

const webhooksOfJobs = section('Webhooks', {
  getJobWebhook: defineEndpoint({
    route: `GET ${path}/:jobId/webhook`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'Get the webhook of a job and the attempts to deliver it',
    request,
    answer: oneOf(webhookSchema),
    errors: ['JOB_NOT_FOUND', 'NOT_FOUND'],
    async handle(call, { reads, webhooks }) {
      const { id: jobId } = await find(call, { reads });
      const { organizationId } = call.caller;
      return found(
        await showWebhook(webhooks, await webhookOf(webhooks, { jobId, organizationId })),
      );
    },
  }),

  redeliverJobWebhook: defineEndpoint({
    route: `POST ${path}/:jobId/webhook/redeliver`,
    scope: 'studio:read',
    summary: 'Send the webhook of a job again, now',
    description: 'The key also needs the scope of the job’s endpoint, for example `studio:image`.',
    request,
    answer: oneOf(webhookSchema),
    answers: { 202: 'The webhook will be delivered again.' },
    errors: ['JOB_NOT_FOUND', 'NOT_FOUND', 'JOB_NOT_DONE'],
    async handle(call, services) {
      const job = await find(call, services);
      const { organizationId } = call.caller;
      const capability = findCapability(job.type);
      if (capability) authorize(call.caller, scopeOf(capability));
      const webhook = await webhookOf(services.webhooks, { jobId: job.id, organizationId });
      if (job.status === 'open') throw new GatewayError('JOB_NOT_DONE');
      return found(await redeliver(services, webhook));
    },
  }),
});

/** Endpoints below /studio/jobs. */
export const studioJobs = [...ofAllJobs, ...jobs, ...webhooksOfJobs];
