/** A job as an execution: how its row is shown to readers, and how its workflow starts. */
import type { Client } from '@temporalio/client';
import type { SearchAttributePair } from '@temporalio/common';
import { splitEndUser } from '../../domain/end-users.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import {
  checkNow,
  jobWorkflowId,
  searchAttributes,
  type JobOutcome,
} from '../../domain/job-contract.ts';
import type { JobPlan } from '../../domain/job-plan.ts';
import type { Config } from '../../platform/config.ts';
import { callTemporal } from '../../platform/temporal.ts';
import type { FollowedKind } from '../../executions/feed.ts';
import { requestOf, startExecution } from '../../executions/keeper.ts';
import type { JobReads, JobRecord } from './job-reads.ts';
import type { JobView } from './job-view.ts';

/** Creates the kind of executions that jobs are. */
export function createJobKind(
  { read, readMany }: Pick<JobReads, 'read' | 'readMany'>,
  view: JobView,
): FollowedKind<JobRecord> {
  return {
    event: 'job',
    read,
    readMany,
    isEnded: ({ status }) => status !== 'open',
    // Result URLs are not part of it, because they differ in each response.
    fingerprint: (job) => {
      const { status, callStates, queuePosition, verifying, approvals } = job;
      const waits = Object.values(approvals ?? {}).map(({ sinceMs, end }) => [sinceMs, end?.kind]);
      return JSON.stringify([status, callStates, queuePosition, verifying, waits]);
    },
    endUserOf: ({ metadata }) => splitEndUser(metadata).endUser,
    show: view.resource,
  };
}

/**
 * Starts the workflow of a job unless it is already running. A workflow that has ended may be
 * started again, because each of its steps is idempotent by job id.
 * @throws ServiceError if Temporal did not confirm the start; the workflow may be running
 */
export function startWorkflow(
  services: { client: Client; config: Pick<Config, 'TASK_QUEUE_PREFIX'> },
  plan: JobPlan,
): Promise<void> {
  return startExecution(services, {
    id: jobWorkflowId(plan.jobId),
    type: plan.type,
    input: plan,
    ...describeWorkflow(plan),
    ...(plan.parentJobId !== undefined && { memo: { parentJobId: plan.parentJobId } }),
    priority: { fairnessKey: plan.organizationId },
  });
}

/**
 * Reads the outcome of a job from the result of its workflow. Returns null if the workflow is running
 * or did not complete.
 * @throws ServiceError if Temporal cannot be reached
 */
export function readOutcome(client: Client, jobId: string): Promise<JobOutcome | null> {
  const workflow = client.workflow.getHandle<() => Promise<JobOutcome>>(jobWorkflowId(jobId));
  return callTemporal(client, async () => {
    const { status } = await workflow.describe();
    return status.name === 'COMPLETED' ? workflow.result() : null;
  });
}

/** Requests cancellation of the workflow of a job. Returns false if it is not running. */
export const requestCancel = (client: Client, jobId: string): Promise<boolean> =>
  requestOf(client, jobWorkflowId(jobId), (workflow) => workflow.cancel());

/** Signals the workflow of a job to check its calls now. Returns false if it is not running. */
export const requestCheck = (client: Client, jobId: string): Promise<boolean> =>
  requestOf(client, jobWorkflowId(jobId), (workflow) => workflow.signal(checkNow));

/**
 * Returns the workflow start options that describe a job: search attributes, a one-line summary and
 * Markdown details for operators. They contain no prompt and no input, because these may be
 * private.
 */
export function describeWorkflow(plan: JobPlan) {
  return {
    typedSearchAttributes: listSearchAttributes(plan),
    staticSummary: formatSummary(plan),
    staticDetails: formatDetails(plan),
  };
}

function listSearchAttributes(plan: JobPlan): SearchAttributePair[] {
  const provider = plan.calls[0]?.routes[0]?.provider ?? 'none';
  return [
    { key: searchAttributes.organizationId, value: plan.organizationId },
    { key: searchAttributes.keyId, value: plan.keyId },
    { key: searchAttributes.model, value: plan.model ?? 'none' },
    { key: searchAttributes.provider, value: provider },
    { key: searchAttributes.jobStatus, value: 'in_progress' },
    { key: searchAttributes.billingState, value: 'reserved' },
    ...(plan.metadata
      ? [{ key: searchAttributes.metadata, value: formatMetadata(plan.metadata) }]
      : []),
  ];
}

/** Maximum length of a keyword in Temporal, in characters. */
const keywordLengthMax = 255;
/**
 * Maximum size of a keyword list, in bytes: Temporal's default limit minus the encoding overhead.
 */
const keywordsBytesMax = 1800;

/**
 * Formats metadata pairs as `name=value`. Pairs beyond Temporal's limits are omitted, but the
 * database keeps all of them.
 */
function formatMetadata(metadata: Record<string, string>): string[] {
  let bytes = 0;
  return Object.entries(metadata)
    .map(([name, value]) => `${name}=${value}`)
    .filter((pair) => {
      const size = Buffer.byteLength(JSON.stringify(pair)) + 1;
      if (pair.length > keywordLengthMax || bytes + size > keywordsBytesMax) return false;
      bytes += size;
      return true;
    });
}

/** Returns the type, quantity, model and price of a job in one line. */
function formatSummary(plan: JobPlan): string {
  const quantity = plan.calls.reduce((sum, call) => sum + call.quantity, 0);
  return `${plan.type}: ${quantity} × ${plan.model ?? 'default'}, ${creditsFromMicro(plan.priceMicro)} credits`;
}

function formatDetails(plan: JobPlan): string {
  const calls = plan.calls.map((call) => {
    const routes = call.routes.map(
      ({ provider, providerEndpoint }) => `${provider} \`${providerEndpoint}\``,
    );
    const price = creditsFromMicro(call.unitPriceMicro * call.quantity);
    return `- call ${call.index + 1}: ${routes.join(', else ')}, ${price} credits`;
  });
  return [
    `organization \`${plan.organizationId}\` · key \`${plan.keyId}\` · request \`${plan.requestId}\``,
    '',
    `reserves ${creditsFromMicro(plan.priceMicro)} credits · deadline ${plan.deadlineAt}`,
    '',
    ...calls,
  ].join('\n');
}
