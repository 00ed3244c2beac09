/** Starts the workflow of a job, with the description that Temporal shows for it. */
import type { Client } from '@temporalio/client';
import type { SearchAttributePair } from '@temporalio/common';
import { creditsFromMicro } from '../../domain/credits.ts';
import { searchAttributes, studioTaskQueue, jobWorkflowId } from '../../domain/job-contract.ts';
import type { JobPlan } from '../../domain/job-plan.ts';
import type { Config } from '../../platform/config.ts';
import { callTemporal } from '../../platform/temporal.ts';

/**
 * Starts the workflow of a job unless it is already running. A workflow that has ended may be
 * started again, because each of its steps is idempotent by job id.
 * @throws ServiceError if Temporal did not confirm the start; the workflow may be running
 */
export async function startWorkflow(
  { client, config }: { client: Client; config: Pick<Config, 'TASK_QUEUE_PREFIX'> },
  plan: JobPlan,
): Promise<void> {
  await callTemporal(client, () =>
    client.workflow.start(plan.type, {
      workflowId: jobWorkflowId(plan.jobId),
      taskQueue: studioTaskQueue(config.TASK_QUEUE_PREFIX),
      args: [plan],
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
      workflowIdConflictPolicy: 'USE_EXISTING',
      ...describeJob(plan),
      priority: { fairnessKey: plan.organizationId },
    }),
  );
}

/**
 * Returns the workflow start options that describe a job: search attributes, a one-line summary and
 * Markdown details for operators. They contain no prompt and no input, because these may be
 * private.
 */
export function describeJob(plan: JobPlan) {
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
