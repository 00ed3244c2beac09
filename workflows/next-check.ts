/**
 * Time of the next status check of a call, and the actions after a check that found the call
 * pending. The functions are pure, so each case is a row of a table in
 * test/workflows/next-check.test.ts.
 */

/** State of a call that is waiting; times are workflow milliseconds. */
export interface Waiting {
  deadlineAtMs: number;
  /** Time after the deadline in which the provider's outcome is still awaited. */
  outcomeWaitMs: number;
  /** Wait before the next check, unless a check is requested or the deadline passes first. */
  waitMs: number;
  /** True if a cancel was sent to the provider. */
  cancelSent: boolean;
  /** True if the deadline has passed and the outcome is being verified. */
  overdue: boolean;
}

/** Input of a decision after a check that found the call pending. */
export interface Pending {
  nowMs: number;
  cancelRequested: boolean;
}

/** Action before the next wait; `give_up` ends the call. */
export type Action = 'cancel' | 'mark_verifying' | 'give_up';

/** Wait after a cancel: a provider that accepts a cancel reports it soon. */
const afterCancelMs = 1000;
const afterCancelMaxMs = 30_000;

/** Returns the milliseconds to wait from now. */
export function waitOf(waiting: Waiting, nowMs: number): number {
  const { deadlineAtMs, outcomeWaitMs, overdue, waitMs } = waiting;
  const endsAtMs = deadlineAtMs + (overdue ? outcomeWaitMs : 0);
  return Math.max(1, Math.min(waitMs, endsAtMs - nowMs));
}

/** Returns the actions and the next wait after a check that found the call pending. */
export function next(
  waiting: Waiting,
  { nowMs, cancelRequested }: Pending,
): { waiting: Waiting; actions: Action[] } {
  const { deadlineAtMs, outcomeWaitMs, waitMs } = waiting;
  if (waiting.overdue && nowMs >= deadlineAtMs + outcomeWaitMs) {
    return { waiting, actions: ['give_up'] };
  }
  const overdue = nowMs >= deadlineAtMs;
  const actions: Action[] = [];
  if ((cancelRequested || overdue) && !waiting.cancelSent) actions.push('cancel');
  if (overdue && !waiting.overdue) actions.push('mark_verifying');
  const cancelSent = waiting.cancelSent || actions.includes('cancel');
  const grown = waiting.cancelSent ? Math.min(waitMs * 2, afterCancelMaxMs) : waitMs * 2;
  return {
    waiting: {
      ...waiting,
      waitMs: actions.includes('cancel') ? Math.min(waitMs, afterCancelMs) : grown,
      cancelSent,
      overdue,
    },
    actions,
  };
}
