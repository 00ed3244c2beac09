/**
 * Operator endpoint that explains a job: returns all its records, the reason for its state, and the
 * possible next steps.
 */
import { z } from 'zod';
import {
  workflowState,
  readWorkflow,
  type WorkflowState,
} from '../../../executions/workflow-state.ts';
import { jobCall } from '../../../studio/jobs/job-calls.ts';
import type { JobRecord } from '../../../studio/jobs/job-reads.ts';
import { pipelineStepId } from '../../../domain/job-record.ts';
import { isoTime, toResponse } from '../../../domain/json.ts';
import { jobWorkflowId } from '../../../domain/job-contract.ts';
import type { Config } from '../../../platform/config.ts';
import type { Composition } from '../../composition.ts';
import { listActions } from '../../../identity/operators.ts';
import {
  explainJob,
  type JobEvidence,
  suggestNextSteps,
  remedyOperations,
  stepSchema,
  listSteps,
} from '../../../studio/jobs/job-explanation.ts';
import { describeJob } from '../../../studio/jobs/job-statement.ts';
import { toData, dataSchema, responseSchema, time } from '../fields.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';
import { buildWebhookResponse, webhookSchema } from '../caller-webhooks.ts';
import { actionSchema } from './admin-operators.ts';
import { entrySchema } from './admin-ledger.ts';
import { notificationSchema } from './admin-outcomes.ts';
import { jobWithOrganization, findJobOfAnyOrganization, jobChangeRequest } from '../job-fields.ts';

const actionsShownMax = 100;

const callSchema = responseSchema(jobCall)
  .omit({
    jobId: true,
    unacceptedSubmits: true,
    acceptedAt: true,
    answeredAt: true,
    notifiedAt: true,
    lateNotificationAt: true,
    notifiedOperationId: true,
    pause: true,
  })
  .extend({
    state: z.string(),
    operation: z
      .unknown()
      .meta({ description: 'Provider operation of this call, including its id.' }),
    attempts: z.int().meta({ description: 'Number of times the call was sent to a provider.' }),
  });

const unacceptedSubmitSchema = responseSchema(jobCall.shape.unacceptedSubmits.element).extend({
  callIndex: z.int(),
  step: pipelineStepId,
});

const nextStepSchema = z.object({
  operation: z.enum(remedyOperations).nullable().meta({
    description: '`operationId` of the endpoint that performs the step; null if there is none.',
  }),
  command: z.string().nullable().meta({
    description:
      'Arguments of `npm run studio --` that perform the step, without the required `--reason`; null if no command performs it.',
  }),
  message: z.string(),
});

const jobExplanationSchema = jobWithOrganization
  .extend({
    why: z.string().meta({ description: 'State of the job and its reason, in one sentence.' }),
    callerWhy: z
      .string()
      .meta({ description: 'What the caller reads about the state of the job.' }),
    next: z.array(nextStepSchema).meta({ description: 'Possible steps, most promising first.' }),
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
    request: z
      .record(z.string(), z.unknown())
      .meta({ description: 'Fields of the request that created the job.' }),
    provider: z.string(),
    steps: z.array(stepSchema),
    calls: z.array(callSchema),
    unacceptedSubmits: z
      .array(unacceptedSubmitSchema)
      .meta({ description: 'Submits that a provider certainly did not accept, oldest first.' }),
    ledger: z.array(entrySchema).meta({ description: 'Ledger entries of the job, oldest first.' }),
    notifications: z
      .array(notificationSchema)
      .meta({ description: 'Provider notifications, oldest first.' }),
    webhook: webhookSchema.nullable(),
    workflow: workflowState.extend({
      workflowId: z.string(),
      state: z.enum([...workflowState.shape.state.options, 'unreachable']).meta({
        description:
          '`closed`: the workflow has ended. `missing`: Temporal has no workflow with its id. `unreachable`: Temporal cannot be reached.',
      }),
      url: z.url().nullable().meta({
        description:
          'Page of the workflow in the first Temporal UI of `TEMPORAL_UI_ORIGINS`; null if that setting is empty.',
      }),
    }),
    actions: z
      .array(actionSchema)
      .meta({ description: 'The latest 100 operator actions on this job, newest first.' }),
  })
  .meta({ id: 'JobExplanation' });
type JobExplanation = z.infer<typeof jobExplanationSchema>;

/** Reads the data about a job that its own row does not contain. */
async function readEvidence(job: JobRecord, services: Composition) {
  const { jobOverview, readCalls, stuckJobs, client, inbox, ledgerReads, webhooks, pool } =
    services;
  const { id: jobId, organizationId } = job;
  const [caller, calls, reservation, entries, notifications, [webhook = null], actions] =
    await Promise.all([
      jobOverview.readCaller(job),
      readCalls([jobId]),
      stuckJobs.find(jobId),
      ledgerReads.entriesOf(jobId),
      inbox.listByJob(jobId),
      webhooks.findAll({ jobId, organizationId }),
      listActions(pool, { subject: jobId, limit: actionsShownMax }),
    ]);
  const workflow = reservation
    ? reservation.workflow
    : await readWorkflow(client, jobId).catch(() => null);
  const attempts = webhook ? await webhooks.attempts(webhook.subjectId, 1) : [];
  const reasons = reservation?.reasons ?? [];
  const evidence = { caller, calls, reasons, workflow, webhook, attempts, actions };
  return { evidence, entries, notifications };
}

function formatWorkflow(
  jobId: string,
  workflow: WorkflowState | null,
  { TEMPORAL_UI_ORIGINS: [origin], TEMPORAL_NAMESPACE: namespace }: Config,
): JobExplanation['workflow'] {
  const workflowId = jobWorkflowId(jobId);
  const segments = [namespace, workflowId].map(encodeURIComponent);
  const url = origin === undefined ? null : `${origin}/namespaces/${segments.join('/workflows/')}`;
  const known = workflow ?? {
    state: 'unreachable',
    status: null,
    resetAt: null,
    retries: [],
    failingTask: null,
  };
  return { workflowId, ...known, url };
}

function formatCaller({ job, caller }: JobEvidence) {
  const { organizationName, organizationStatus, userId, userName } = caller;
  return {
    organization: {
      organizationId: job.organizationId,
      name: organizationName,
      status: organizationStatus,
    },
    key: {
      keyId: job.keyId,
      keyPrefix: caller.keyPrefix,
      name: caller.keyName,
      revokedAt: isoTime(caller.keyRevokedAtMs),
      userId,
      userName,
    },
  };
}

async function readJobExplanation(job: JobRecord, services: Composition): Promise<JobExplanation> {
  const { evidence: records, entries, notifications } = await readEvidence(job, services);
  const evidence: JobEvidence = { job, ...records };
  const { webhook, calls, workflow, actions } = evidence;
  return {
    ...(await services.view.resource(job)),
    organizationId: job.organizationId,
    provider: job.provider,
    why: explainJob(evidence),
    callerWhy: describeJob(job, calls).why,
    next: suggestNextSteps(evidence),
    ...formatCaller(evidence),
    request: job.request,
    steps: listSteps(job, calls, webhook),
    calls: calls.map((record) => callSchema.parse(toResponse(record))),
    unacceptedSubmits: calls.flatMap(({ index, step, unacceptedSubmits }) =>
      unacceptedSubmits.map((submit) => ({ callIndex: index, step, ...toResponse(submit) })),
    ),
    ledger: entries.map(toResponse),
    notifications: notifications.map(toResponse),
    webhook: webhook && (await buildWebhookResponse(services.webhooks, webhook)),
    workflow: formatWorkflow(job.id, workflow, services.config),
    actions: actions.map(toResponse),
  };
}

/** Endpoint that explains a job. */
export const jobExplanation = defineSection('Jobs', {
  getJob: defineEndpoint({
    route: 'GET /api/admin/v1/jobs/:jobId',
    summary: 'Explain a job: its organization, steps, credits and possible next steps',
    request: { params: jobChangeRequest.params },
    response: dataSchema(jobExplanationSchema),
    errors: ['JOB_NOT_FOUND', 'JOB_ARCHIVED'],
    async handle(request, services) {
      const job = await findJobOfAnyOrganization(request, services);
      return toData(await readJobExplanation(job, services));
    },
  }),
});
