/** How a job shows in Temporal: search attributes, one line for the list, a page for the operator. */
import type { SearchAttributePair } from '@temporalio/common';
import { creditsFromMicro } from '../../domain/credits.ts';
import type { JobPlan } from '../../jobs/job-plan.ts';
import { searchAttributes } from '../../jobs/contract.ts';

/** Start options that describe a job. Nothing of the request is among them: it may be private. */
export interface JobDescription {
  typedSearchAttributes: SearchAttributePair[];
  staticSummary: string;
  staticDetails: string;
}

/** Describes a job. */
export function describeJob(plan: JobPlan): JobDescription {
  return {
    typedSearchAttributes: attributesOf(plan),
    staticSummary: summaryOf(plan),
    staticDetails: detailsOf(plan),
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
    ...(plan.metadata ? [{ key: searchAttributes.metadata, value: tagsOf(plan.metadata) }] : []),
  ];
}

/** What Temporal keeps of one keyword, and its default limit for a list of them, less what encodes it. */
const keywordLengthMax = 255;
const keywordsBytesMax = 1800;

/** The pairs as `name=value`; those that Temporal would not take are left out, the database has them. */
function tagsOf(metadata: Record<string, string>): string[] {
  let bytes = 0;
  return Object.entries(metadata)
    .map(([name, value]) => `${name}=${value}`)
    .filter((tag) => {
      const size = Buffer.byteLength(JSON.stringify(tag)) + 1;
      if (tag.length > keywordLengthMax || bytes + size > keywordsBytesMax) return false;
      bytes += size;
      return true;
    });
}

/** What is made, with what, for how much. */
function summaryOf(plan: JobPlan): string {
  const wanted = plan.calls.reduce((sum, call) => sum + call.quantity, 0);
  return `${plan.type}: ${wanted} × ${plan.model ?? 'default'}, ${creditsFromMicro(plan.priceMicro)} credits`;
}

/** Markdown. */
function detailsOf(plan: JobPlan): string {
  const calls = plan.calls.map((call) => {
    const routes = call.routes.map(({ provider, operation }) => `${provider} \`${operation}\``);
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
