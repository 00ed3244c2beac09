/** How a job shows in Temporal: search attributes, one line for the list, a page for the operator. */
import type { SearchAttributePair } from '@temporalio/common';
import { creditsFromMicro } from '../../domain/credits.ts';
import type { JobPlan } from '../../studio/job-plan.ts';
import { searchAttributes } from '../../workflows/contract.ts';

/** Start options that describe a job. Nothing of the request is among them: it may be private. */
export interface JobDescription {
  typedSearchAttributes: SearchAttributePair[];
  staticSummary: string;
  staticDetails: string;
}

/** Describes a job; `baseUrl` is where the gateway is reached. */
export function describeJob(plan: JobPlan, baseUrl: string): JobDescription {
  return {
    typedSearchAttributes: attributesOf(plan),
    staticSummary: summaryOf(plan),
    staticDetails: detailsOf(plan, baseUrl),
  };
}

function attributesOf(plan: JobPlan): SearchAttributePair[] {
  const provider = plan.calls[0]?.routes[0]?.provider ?? 'none';
  return [
    { key: searchAttributes.organizationId, value: plan.organizationId },
    { key: searchAttributes.keyId, value: plan.keyId },
    { key: searchAttributes.model, value: plan.model ?? 'none' },
    { key: searchAttributes.provider, value: provider },
    { key: searchAttributes.jobStatus, value: 'in_progress' },
    { key: searchAttributes.billingState, value: 'reserved' },
  ];
}

/** What is made, with what, for how much. */
function summaryOf(plan: JobPlan): string {
  const wanted = plan.calls.reduce((sum, call) => sum + call.quantity, 0);
  return `${plan.type}: ${wanted} × ${plan.model ?? 'default'}, ${creditsFromMicro(plan.priceMicro)} credits`;
}

/** Markdown. */
function detailsOf(plan: JobPlan, baseUrl: string): string {
  const job = `${baseUrl}/api/v1/studio/jobs/${plan.jobId}`;
  const calls = plan.calls.map((call) => {
    const routes = call.routes.map(({ provider, operation }) => `${provider} \`${operation}\``);
    const price = creditsFromMicro(call.unitPriceMicro * call.quantity);
    return `- call ${call.index}: ${routes.join(', else ')}, ${price} credits`;
  });
  return [
    `[job and result](${job}) · [as operators see it](${baseUrl}/api/admin/v1/jobs/${plan.jobId})`,
    '',
    `organization \`${plan.organizationId}\` · key \`${plan.keyId}\` · request \`${plan.requestId}\``,
    '',
    `reserves ${creditsFromMicro(plan.priceMicro)} credits · deadline ${plan.deadlineAt}`,
    '',
    ...calls,
  ].join('\n');
}
