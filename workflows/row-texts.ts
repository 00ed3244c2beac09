/** Texts of rows in the Temporal UI. */
import { creditsFromMicro } from '../domain/credits.ts';
import type { CallRoute, JobPlan, PlannedCall } from '../jobs/job-plan.ts';

/** Returns the prefix that names the call in a row; empty if the job has one call. */
export function callPrefix({ plan, call }: { plan: JobPlan; call: PlannedCall }): string {
  return plan.calls.length > 1 ? `call ${call.index + 1} of ${plan.calls.length} · ` : '';
}

/** Returns the text that names a call's request at its provider: `fal 2f370a9e…`. */
export function requestText(
  running: { plan: JobPlan; call: PlannedCall; route: CallRoute },
  providerRequestId: string,
): string {
  const shortId = providerRequestId.replace(/^(.{8}).+$/, '$1…');
  return `${callPrefix(running)}${running.route.provider} ${shortId}`;
}

/** Formats micro-credits for operators. */
export function creditsOf(amountMicro: number): string {
  return `${creditsFromMicro(amountMicro)} credits`;
}

/** Formats a time in UTC, to the second. */
export function clock(timeMs: number): string {
  return `${new Date(timeMs).toISOString().slice(11, 19)} UTC`;
}
