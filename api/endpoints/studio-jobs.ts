/** /api/v1/studio/jobs: gets (with long polling), lists, counts and cancels jobs. */
import type { ParameterizedContext } from 'koa';
import { z } from 'zod';
import type { JobRecord } from '../../studio/jobs/job-reads.ts';
import { GatewayError, type ErrorCode } from '../../domain/errors.ts';
import { isoTime } from '../../domain/json.ts';
import { jobWorkflowId } from '../../domain/job-contract.ts';
import { correlate } from '../../platform/logger.ts';
import { creditsSchema, jobSchema, type JobView } from '../../studio/jobs/job-view.ts';
import type { Composition } from '../composition.ts';
import { parsePreferredWaitMs } from '../http/request-headers.ts';
import { closedSignal, countBytes } from '../middleware/request-shares.ts';
import { cancelJob } from '../../studio/jobs/job-endings.ts';
import { getRequiredScope } from '../../studio/capabilities/capability.ts';
import { pipelines, stepId } from '../../studio/pipelines/pipeline-requests.ts';
import { decideStep, decisionRequest } from '../../studio/requests/decisions.ts';
import { stepSchema, listSteps } from '../../studio/jobs/job-explanation.ts';
import { describeJob } from '../../studio/jobs/job-statement.ts';
import { toData, toPage, dataSchema, pageSchema, pathId, showInTurns, time } from './fields.ts';
import { jobFilter, toJobFilter } from './job-fields.ts';
import { studioErrors } from './studio-results.ts';
import { defineEndpoint, defineSection, type EndpointCall } from './endpoint.ts';

const longPollMaxMs = 60_000;

/** Path of the list of jobs. */
export const jobPath = '/api/v1/studio/jobs';
/** Path parameters with a job id. */
export const jobRequest = { params: z.object({ jobId: pathId('job') }) };
const listQuery = z.strictObject({
  ...jobFilter,
  limit: z.coerce.number().int().min(1).max(100).default(20),
  cursor: z
    .string()
    .regex(/^job_[0-9a-f]{32}$/, 'must be the nextCursor of an earlier page')
    .optional(),
});
/** Maximum number of jobs that a count with a `status` counts one by one. */
const countMax = 10_000;
/** The same with `search`. */
const foundMax = 1000;
const jobCount = z.object({
  count: z.int().meta({ description: 'Number of jobs.' }),
  complete: z.boolean().meta({
    description: `False if there are more jobs: with another \`status\` than \`completed\`, at most ${countMax.toLocaleString('en')} jobs are counted, and with \`search\` at most ${foundMax.toLocaleString('en')}.`,
  }),
});
const timeline = z
  .object({
    jobId: z.string(),
    request: z
      .record(z.string(), z.unknown())
      .meta({ description: 'Fields of the request that created the job.' }),
    createdAt: time,
    why: z.string().meta({
      description: 'How the job goes, or why it failed, and what it costs, in plain words.',
    }),
    outcomeUnknown: z.boolean().meta({
      description: 'True while it is unknown whether a provider accepted, or delivers, a call.',
    }),
    steps: z.array(stepSchema),
  })
  .meta({ id: 'JobTimeline' });
const decisionHeaders = z.object({
  'Idempotent-Replayed': z
    .literal('true')
    .optional()
    .meta({ description: 'Present if the same decision was made before.' }),
});
const jobResponse = dataSchema(jobSchema).extend({ credits: creditsSchema });

/** Errors of decisions about steps. */
export const decisionErrors: readonly ErrorCode[] = [
  ...studioErrors,
  'FILE_TOO_LARGE',
  'STORAGE_QUOTA_EXCEEDED',
  'PRICE_LIMIT_EXCEEDED',
  'MEDIA_DELETED',
  'NOT_AWAITING',
  'ALREADY_DECIDED',
];

type JobPathCall = Pick<EndpointCall<typeof jobRequest>, 'caller' | 'params'>;

/** Returns the job with the id in the path. @throws GatewayError JOB_NOT_FOUND or JOB_ARCHIVED */
export async function findJob(
  { caller, params: { jobId } }: JobPathCall,
  { reads }: Pick<Composition, 'reads'>,
): Promise<JobRecord> {
  const job = await reads.read(caller.organizationId, jobId);
  if (!job) throw new GatewayError(await reads.missing(caller.organizationId, jobId));
  correlate({ jobId, workflowId: jobWorkflowId(jobId) });
  return job;
}

async function buildJobResponse(
  ctx: ParameterizedContext,
  view: JobView,
  job: JobRecord,
): Promise<z.infer<typeof jobResponse>> {
  if (job.status === 'open') ctx.set('Retry-After', '2');
  return { ...toData(await view.resource(job)), credits: view.credits(job) };
}

/** Job endpoints, except event streams and webhooks. */
export const studioJobs = defineSection('Jobs', {
  // Must precede the endpoint of one job, whose route would match `count` as a job id.
  countJobs: defineEndpoint({
    route: `GET ${jobPath}/count`,
    scope: 'studio:read',
    allowsTokens: true,
    bucket: 'polls',
    summary: 'Count jobs',
    request: { query: z.strictObject(jobFilter) },
    response: dataSchema(jobCount),
    async handle({ caller: { organizationId }, query }, { reads, usageSums }) {
      const filter = toJobFilter(query);
      const { status, phase, search, ...others } = filter;
      if (search !== undefined) return toData(await reads.count(organizationId, filter, foundMax));
      if (phase !== undefined || (status !== undefined && status !== 'completed'))
        return toData(await reads.count(organizationId, filter, countMax));
      // The completed jobs are those that were charged.
      const billing = status === undefined ? undefined : ('charged' as const);
      const count = await usageSums.countJobs(organizationId, { ...others, status: billing });
      return toData({ count, complete: true });
    },
  }),

  getJobTimeline: defineEndpoint({
    route: `GET ${jobPath}/:jobId/timeline`,
    scope: 'studio:read',
    allowsTokens: true,
    bucket: 'polls',
    summary: 'Get the request of a job and the times of its steps',
    request: jobRequest,
    response: dataSchema(timeline),
    errors: ['JOB_NOT_FOUND', 'JOB_ARCHIVED'],
    async handle(call, { reads, readCalls, webhooks }) {
      const job = await findJob(call, { reads });
      const [calls, [webhook = null]] = await Promise.all([
        readCalls([job.id]),
        webhooks.findAll({ jobId: job.id, organizationId: call.caller.organizationId }),
      ]);
      const createdAt = isoTime(job.createdAtMs);
      const steps = listSteps(job, calls, webhook);
      return toData({
        jobId: job.id,
        request: job.request,
        createdAt,
        ...describeJob(job, calls),
        steps,
      });
    },
  }),

  getJob: defineEndpoint({
    route: `GET ${jobPath}/:jobId`,
    scope: 'studio:read',
    allowsTokens: true,
    bucket: 'polls',
    summary: 'Get a job',
    description:
      'With `wait`, the server responds when the job has ended, but at the latest after `wait` seconds.',
    request: {
      ...jobRequest,
      query: z.strictObject({ wait: z.coerce.number().min(0).max(60).optional() }),
    },
    response: jobResponse,
    errors: ['JOB_NOT_FOUND', 'JOB_ARCHIVED'],
    async handle({ ctx, query, ...call }, { reads, jobWaits, view }) {
      const job = await findJob(call, { reads });
      const waitMs = parsePreferredWaitMs(ctx, (query.wait ?? 0) * 1000, longPollMaxMs);
      const { organizationId } = call.caller;
      if (waitMs === 0 || job.status !== 'open') return buildJobResponse(ctx, view, job);
      ctx.state.endTurn?.();
      const signal = closedSignal(ctx);
      const awaited = await jobWaits.awaitEnd({ organizationId, id: job.id, signal }, waitMs);
      return buildJobResponse(ctx, view, awaited ?? job);
    },
  }),

  listJobs: defineEndpoint({
    route: `GET ${jobPath}`,
    scope: 'studio:read',
    allowsTokens: true,
    bucket: 'polls',
    summary: 'List jobs, newest first',
    request: { query: listQuery },
    response: pageSchema(jobSchema),
    async handle({ caller, query }, { reads, view }) {
      const rows = await reads.list(caller.organizationId, {
        ...toJobFilter(query),
        beforeId: query.cursor,
        limit: query.limit + 1,
      });
      const page = toPage(rows, { limit: query.limit, cursor: 'id', show: (job) => job });
      return { ...page, data: await showInTurns(caller.organizationId, page.data, view.resource) };
    },
  }),

  decideStep: defineEndpoint({
    route: `POST ${jobPath}/:jobId/steps/:stepId/decision`,
    scope: getRequiredScope(pipelines),
    summary: 'Approve or reject a step that waits for a decision',
    description:
      'Of several decisions, the first counts. The same decision again is answered with 200 and `Idempotent-Replayed`. ' +
      'An approved step runs for the credits that the job has reserved; a rejected one and all steps that follow it are skipped.',
    request: {
      params: jobRequest.params.extend({ stepId }),
      body: decisionRequest,
    },
    response: jobResponse,
    responses: { 200: { description: 'The decision counts.', headers: decisionHeaders } },
    errors: [...decisionErrors, 'NOT_FOUND', 'JOB_NOT_FOUND', 'JOB_ARCHIVED'],
    async handle({ ctx, requestId, body, ...call }, services) {
      const { reads, view } = services;
      const job = await findJob(call, { reads });
      const { replayed } = await decideStep(
        {
          job,
          stepId: call.params.stepId,
          decision: body,
          caller: call.caller,
          requestId,
          countCopied: (bytes) => countBytes(ctx, { kind: 'spool', bytes }),
        },
        services,
      );
      if (replayed) ctx.set('Idempotent-Replayed', 'true');
      return buildJobResponse(ctx, view, await findJob(call, { reads }));
    },
  }),

  cancelJob: defineEndpoint({
    route: `POST ${jobPath}/:jobId/cancel`,
    scope: 'studio:read',
    allowsTokens: true,
    viewerError: 'A viewer may not cancel jobs.',
    summary: 'Cancel a job',
    description:
      'If no provider has been called yet, the job is canceled and its credits are released. Otherwise the cancellation is sent to the provider, which decides the outcome.',
    request: jobRequest,
    response: jobResponse,
    responses: { 200: 'The job has ended.', 202: 'The provider has not decided the outcome yet.' },
    errors: ['JOB_NOT_FOUND', 'JOB_ARCHIVED', 'JOB_ALREADY_DONE'],
    async handle({ ctx, ...call }, { reads, client, jobWaits, view }) {
      const job = await findJob(call, { reads });
      const updatedJob = await cancelJob({ client, jobWaits }, job);
      ctx.status = updatedJob.status === 'open' ? 202 : 200;
      return buildJobResponse(ctx, view, updatedJob);
    },
  }),
});
