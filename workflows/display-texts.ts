/** Texts that operators see in the timeline of the Temporal UI and in the progress of a job. */
import { creditsFromMicro } from '../domain/credits.ts';
import type { CallRoute, JobPlan, PlannedCall } from '../domain/job-plan.ts';

/**
 * Returns a prefix that identifies a call, such as `call 2 of 4 · `. The prefix is empty if the job
 * has only one call.
 */
export function callPrefix({ plan, call }: { plan: JobPlan; call: PlannedCall }): string {
  return plan.calls.length > 1 ? `call ${call.index + 1} of ${plan.calls.length} · ` : '';
}

/** Formats the provider and the provider request id of a call, such as `fal 2f370a9e…`. */
export function formatRequest(
  running: { plan: JobPlan; call: PlannedCall; route: CallRoute },
  providerRequestId: string,
): string {
  const shortId = providerRequestId.replace(/^(.{8}).+$/, '$1…');
  return `${callPrefix(running)}${running.route.provider} ${shortId}`;
}

/** Formats micro-credits as credits, such as `3.9 credits`. */
export function formatCredits(amountMicro: number): string {
  return `${creditsFromMicro(amountMicro)} credits`;
}

/** Formats a Unix time in milliseconds as `14:05:09 UTC`. */
export function formatTimeUtc(timeMs: number): string {
  return `${new Date(timeMs).toISOString().slice(11, 19)} UTC`;
}
