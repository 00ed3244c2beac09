/** Operators: all that is known of a job, whosever it is, and why it stands where it stands. */
import { z } from 'zod';
import type { JobWorkflow } from '../../../jobs/records/job-owner.ts';
import { workflowOf } from '../../../jobs/records/job-owner.ts';
import type { JobRecord } from '../../../jobs/records/job-reads.ts';
import { isoTime, isoTimes } from '../../../domain/json.ts';
import { workflowIdOf } from '../../../jobs/contract.ts';
import type { Config } from '../../../platform/config.ts';
import type { Composition } from '../../composition.ts';
import { listActions } from '../../identity/operators.ts';
import { nextStepsOf, remedies, whyOf, type JobFacts } from '../../studio/job-explanation.ts';
import { stepSchema, stepsOf } from '../../studio/job-steps.ts';
import { found, oneOf, time } from '../fields.ts';
import { defineOperation, section } from '../operation.ts';
import { showWebhook, webhookSchema } from '../webhooks.ts';
import { actionSchema } from './operators.ts';
import { entrySchema, entryView } from './ledger.ts';
import { notificationSchema } from './outcomes.ts';
import { ownedJob, overseenJob, writeToJob } from './jobs.ts';

const actionsShownMax = 100;

const call = z.object({
  index: z.int(),
  routeIndex: z.int(),
  provider: z.string(),
  endpoint: z.string().nullable(),
  state: z.string(),
  operation: z.unknown().meta({ description: 'The handle of the provider.' }),
  providerRequestId: z.string().nullable(),
  attempts: z.int().meta({ description: 'How often it was sent.' }),
  begunAt: time,
  updatedAt: time,
});

const next = z.object({
  operation: z
    .enum(remedies)
    .nullable()
    .meta({ description: 'An operation of this API that does it.' }),
  command: z
    .string()
    .nullable()
    .meta({ description: 'Of `npm run studio --`, which also wants `--reason`.' }),
  words: z.string(),
});

const story = ownedJob
  .extend({
    why: z.string().meta({ description: 'The job in one sentence.' }),
    next: z.array(next).meta({ description: 'What can be done, most promising first.' }),
    organization: z.object({
      organizationId: z.string(),
      name: z.string(),
      status: z.enum(['active', 'suspended']),
    }),
    key: z.object({
      keyId: z.string(),
      keyPrefix: z.string(),
      name: z.string(),
      revokedAt: time.nullable(),
      userId: z.string(),
      userName: z.string(),
    }),
    request: z.record(z.string(), z.unknown()).meta({ description: 'As it was accepted.' }),
    provider: z.string(),
    steps: z.array(stepSchema),
    calls: z.array(call),
    ledger: z.array(entrySchema).meta({ description: 'Oldest first.' }),
    notifications: z.array(notificationSchema).meta({ description: 'Oldest first.' }),
    webhook: webhookSchema.nullable(),
    workflow: z.object({
      workflowId: z.string(),
      state: z.enum(['running', 'closed', 'missing', 'unreachable']),
      status: z.string().nullable().meta({ description: 'As Temporal names it.' }),
      url: z.url().nullable().meta({ description: 'In the first UI of `TEMPORAL_UI_ORIGINS`.' }),
    }),
    actions: z
      .array(actionSchema)
      .meta({ description: 'Operators’ actions to it, newest first; the last 100.' }),
  })
  .meta({ id: 'ExplainedJob' });
type Story = z.infer<typeof story>;

/** What is read of a job, beside itself. */
async function readParts(job: JobRecord, services: Composition) {
  const { oversight, readCalls, stuckJobs, client, inbox, ledgerReads, webhooks, pool } = services;
  const { id: jobId, organization_id: organizationId } = job;
  const [caller, calls, open, entries, notifications, webhook, attempts, actions] =
    await Promise.all([
      oversight.caller(job),
      readCalls(jobId),
      stuckJobs.find(jobId),
      ledgerReads.entriesOf(jobId),
      inbox.ofJob(jobId),
      webhooks.find({ jobId, organizationId }),
      webhooks.attempts(jobId, 1),
      listActions(pool, { subject: jobId, limit: actionsShownMax }),
    ]);
  const owner = open ? open.owner : await workflowOf(client, jobId).catch(() => null);
  const reasons = open?.reasons ?? [];
  const facts = { caller, calls, reasons, owner, webhook, attempts, actions };
  return { facts, entries, notifications };
}

function workflowView(
  jobId: string,
  owner: JobWorkflow | null,
  { TEMPORAL_UI_ORIGINS: [origin], TEMPORAL_NAMESPACE: namespace }: Config,
): Story['workflow'] {
  const workflowId = workflowIdOf(jobId);
  const words = [namespace, workflowId].map(encodeURIComponent);
  const url = origin === undefined ? null : `${origin}/namespaces/${words.join('/workflows/')}`;
  return { workflowId, ...(owner ?? { state: 'unreachable', status: null }), url };
}

function callerView({ job, caller }: JobFacts) {
  const { organizationName, organizationStatus, userId, userName } = caller;
  return {
    organization: {
      organizationId: job.organization_id,
      name: organizationName,
      status: organizationStatus,
    },
    key: {
      keyId: job.key_id,
      keyPrefix: caller.keyPrefix,
      name: caller.keyName,
      revokedAt: isoTime(caller.keyRevokedAtMs),
      userId,
      userName,
    },
  };
}

async function tell(job: JobRecord, services: Composition): Promise<Story> {
  const { facts: parts, entries, notifications } = await readParts(job, services);
  const facts: JobFacts = { job, ...parts };
  const { webhook, calls, owner, actions } = facts;
  return {
    ...(await services.view.resource(job)),
    organizationId: job.organization_id,
    provider: job.provider,
    why: whyOf(facts),
    next: nextStepsOf(facts),
    ...callerView(facts),
    request: job.request,
    steps: stepsOf(job, calls, webhook),
    calls: calls.map((each) => call.parse(isoTimes(each))),
    ledger: entries.map(entryView),
    notifications: notifications.map(isoTimes),
    webhook: webhook && (await showWebhook(services.webhooks, webhook)),
    workflow: workflowView(job.id, owner, services.config),
    actions: actions.map(isoTimes),
  };
}

/** The story. */
export const jobStory = section('Jobs', {
  getJob: defineOperation({
    route: 'GET /api/admin/v1/jobs/:jobId',
    summary: 'Explain a job: its owner, its steps, its credits, and the next action',
    request: { params: writeToJob.params },
    answer: oneOf(story),
    errors: ['JOB_NOT_FOUND'],
    async handle(named, services) {
      const job = await overseenJob(named, services);
      const { id, organization_id: organizationId } = job;
      // As its owner sees it, with its documents.
      return found(await tell((await services.reads.read(organizationId, id)) ?? job, services));
    },
  }),
});
