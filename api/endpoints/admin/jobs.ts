/**
 * Operators: jobs of all organizations: list, cancel, check with the provider, and settle without a
 * workflow.
 */
import { z } from 'zod';
import type { JobRecord } from '../../../jobs/records/job-reads.ts';
import { askToCheck, workflowOf } from '../../../jobs/records/job-owner.ts';
import { GatewayError, errorTable } from '../../../domain/errors.ts';
import { isoTime, keysOf } from '../../../domain/json.ts';
import { billingOf, jobSchema, promptLineOf } from '../../../studio/job-view.ts';
import type { Composition } from '../../composition.ts';
import { recordAction } from '../../identity/operators.ts';
import { withNames } from '../../identity/organizations.ts';
import { resettle } from '../../studio/resettlement.ts';
import {
  authority,
  found,
  foundPage,
  idField,
  oneOf,
  pageLimit,
  pageOf,
  time,
  jobType,
  bareWrite,
  pathId,
  recordFilter,
  recordFilterOf,
} from '../fields.ts';
import { jobSearch } from '../job-filter.ts';
import { defineEndpoint, section } from '../endpoint.ts';

const path = '/api/admin/v1/jobs';
const status = z.enum(['open', 'completed', 'failed', 'canceled']);

const jobLine = z
  .object({
    jobId: z.string(),
    organizationId: z.string(),
    organizationName: z.string(),
    keyId: z.string(),
    type: z.string(),
    model: z.string().nullable(),
    prompt: jobSchema.shape.prompt,
    provider: z.string(),
    status,
    verifying: z.boolean(),
    errorCode: z.string().nullable(),
    billing: jobSchema.shape.billing,
    createdAt: time,
    deadlineAt: time,
    completedAt: time.nullable(),
  })
  .meta({ id: 'JobLine' });

function lineView(job: JobRecord): Omit<z.infer<typeof jobLine>, 'organizationName'> {
  return {
    jobId: job.id,
    organizationId: job.organization_id,
    keyId: job.key_id,
    type: job.type,
    model: job.model,
    prompt: promptLineOf(job.request),
    provider: job.provider,
    status: job.status,
    verifying: job.verifying,
    errorCode: job.error?.code ?? null,
    billing: billingOf(job),
    createdAt: isoTime(job.created_at),
    deadlineAt: isoTime(job.deadline_at),
    completedAt: isoTime(job.completed_at),
  };
}

const stateSchema = jobLine
  .pick({ jobId: true, organizationId: true, status: true, verifying: true, errorCode: true })
  .extend({
    billing: jobSchema.shape.billing.shape.state,
    findings: z.array(
      z.object({
        callIndex: z.int(),
        provider: z.string(),
        verdict: z.string(),
        operation: z.unknown(),
        message: z.string(),
      }),
    ),
  });

function stateOf(job: JobRecord): Omit<z.infer<typeof stateSchema>, 'findings'> {
  const { jobId, organizationId, status: now, verifying, errorCode, billing } = lineView(job);
  return { jobId, organizationId, status: now, verifying, errorCode, billing: billing.state };
}

/** Path parameters and body of an operator's change to a job. */
export const writeToJob = { params: z.object({ jobId: pathId('job') }), body: bareWrite };

/**
 * Finds the job of `:jobId` in any organization.
 * @throws GatewayError JOB_NOT_FOUND
 */
export async function overseenJob(
  { params: { jobId } }: { params: { jobId: string } },
  { oversight }: Pick<Composition, 'oversight'>,
): Promise<JobRecord> {
  const job = await oversight.find(jobId);
  if (!job) throw new GatewayError('JOB_NOT_FOUND');
  return job;
}

/** Schema of a job as its owner sees it, with the id of its organization. */
export const ownedJob = jobSchema.extend({ organizationId: z.string() }).meta({ id: 'OwnedJob' });

/**
 * Returns the subject of a recorded action on a job. The action is recorded before Temporal or a
 * provider is called, so that no call is without a record.
 */
export const recordedOf = ({ id, organization_id }: JobRecord) => ({
  subject: id,
  organizationId: organization_id,
});

const listing = {
  listJobs: defineEndpoint({
    route: `GET ${path}`,
    summary: 'List jobs, newest first',
    request: {
      query: z.strictObject({
        organizationId: idField('organization').optional(),
        status: status.optional(),
        type: jobType.optional(),
        provider: z.string().max(64).optional(),
        errorCode: z.enum(keysOf(errorTable)).optional(),
        search: jobSearch,
        model: recordFilter.model,
        after: recordFilter.after,
        before: recordFilter.before,
        limit: pageLimit,
        cursor: idField('job').optional(),
      }),
    },
    answer: pageOf(jobLine),
    async handle({ query: { limit, cursor, ...query } }, { pool, oversight }) {
      const filter = { ...query, ...recordFilterOf(query) };
      const rows = await oversight.list({ ...filter, beforeId: cursor, limit: limit + 1 });
      const page = foundPage(rows, { limit, cursor: 'id', show: lineView });
      return { ...page, data: await withNames(pool, page.data) };
    },
  }),
};

const actions = {
  cancelJob: defineEndpoint({
    route: `POST ${path}/:jobId/cancel`,
    summary: 'Cancel a job',
    request: writeToJob,
    answer: oneOf(ownedJob),
    answers: { 200: 'The job has ended.', 202: 'The provider has not decided yet.' },
    errors: ['JOB_NOT_FOUND', 'JOB_ALREADY_DONE'],
    async handle({ ctx, ...write }, { pool, oversight, admission, view }) {
      const job = await overseenJob(write, { oversight });
      if (job.status !== 'open') throw new GatewayError('JOB_ALREADY_DONE');
      await recordAction(pool, write, { ...recordedOf(job), action: 'job.cancel_asked' });
      const { organization_id: organizationId } = job;
      const now = await admission.cancel(organizationId, job);
      ctx.status = now.status === 'open' ? 202 : 200;
      return found({ ...(await view.resource(now)), organizationId });
    },
  }),

  reverifyJob: defineEndpoint({
    route: `POST ${path}/:jobId/reverify`,
    summary: 'Check the calls of a job with their providers again',
    request: writeToJob,
    answer: oneOf(
      stateSchema.extend({
        workflow: z.object({ state: z.string(), status: z.string().nullable() }),
        workflowSignaled: z.boolean().meta({
          description: 'True if the running workflow received a signal to check its calls.',
        }),
      }),
    ),
    errors: ['JOB_NOT_FOUND'],
    async handle(write, { pool, oversight, statusChecks, client }) {
      const job = await overseenJob(write, { oversight });
      await recordAction(pool, write, { ...recordedOf(job), action: 'job.reverified' });
      const findings = await statusChecks.ofJob(job.id);
      const workflowSignaled = job.status === 'open' && (await askToCheck(client, job.id));
      const now = await overseenJob(write, { oversight });
      const workflow = await workflowOf(client, job.id);
      return found({ ...stateOf(now), workflow, workflowSignaled, findings });
    },
  }),

  resettleJob: defineEndpoint({
    route: `POST ${path}/:jobId/resettle`,
    summary: 'Settle a job whose workflow no longer exists, by its outcome at the provider',
    request: {
      params: writeToJob.params,
      body: z.strictObject({
        ...authority,
        release: z.boolean().default(false).meta({
          description:
            'Releases the credits also if the provider may still deliver and the job cannot be continued.',
        }),
      }),
    },
    answer: oneOf(
      stateSchema.extend({ decision: z.enum(['taken_up', 'released', 'already_settled']) }),
    ),
    answers: { 200: 'The job is settled.', 202: 'A new run of the workflow completes the job.' },
    errors: ['JOB_NOT_FOUND', 'JOB_ALREADY_DONE', 'JOB_RUNNING', 'OUTCOME_UNDECIDED'],
    async handle({ ctx, ...write }, services) {
      const { pool, oversight } = services;
      const job = await overseenJob(write, { oversight });
      if (job.status !== 'open') throw new GatewayError('JOB_ALREADY_DONE');
      const { release } = write.body;
      await recordAction(pool, write, {
        ...recordedOf(job),
        action: 'job.resettled',
        details: { release },
      });
      const resettlement = await resettle(job, release, services);
      ctx.status = resettlement.decision === 'taken_up' ? 202 : 200;
      return found({ ...stateOf(await overseenJob(write, { oversight })), ...resettlement });
    },
  }),
};

/** Endpoints below /jobs, except those of webhooks and `getJob`. */
export const jobs = section('Jobs', { ...listing, ...actions });
