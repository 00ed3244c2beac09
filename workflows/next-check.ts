/**
 * Decides when to check a call again, and what to do when a check finds the call pending. The
 * functions are pure; test/workflows/next-check.test.ts has a table of their cases.
 */

/** State of a call that waits for its outputs. Times are in milliseconds of workflow time. */
export interface WaitState {
  deadlineAtMs: number;
  /** Time to wait after the deadline for the outcome of the call. */
  outcomeWaitMs: number;
  /** Longest wait before the next check; signals, a cancellation or the deadline end it. */
  waitMs: number;
  /** True if the provider was requested to cancel the call. */
  cancelSent: boolean;
  /** True if the deadline has passed, so that the outcome is being verified. */
  overdue: boolean;
}

/** Input of `decideNext`: the current time, and whether cancellation of the job was requested. */
export interface PendingCheck {
  nowMs: number;
  cancelRequested: boolean;
}

/** Action to take after a check that found the call pending. `give_up` ends the call. */
export type NextAction = 'cancel' | 'mark_verifying' | 'give_up';

/**
 * Time to wait before the first check after a cancellation, in milliseconds. It is short, because
 * most providers cancel a call quickly.
 */
const waitAfterCancelMs = 1000;
const waitAfterCancelMaxMs = 30_000;

/** Calculates the time until the next check, in milliseconds. */
export function calculateWaitMs(waiting: WaitState, nowMs: number): number {
  const { deadlineAtMs, outcomeWaitMs, overdue, waitMs } = waiting;
  const endsAtMs = deadlineAtMs + (overdue ? outcomeWaitMs : 0);
  return Math.max(1, Math.min(waitMs, endsAtMs - nowMs));
}

/** Returns the actions after a check found the call pending, and the next wait. */
export function decideNext(
  waiting: WaitState,
  { nowMs, cancelRequested }: PendingCheck,
): { waiting: WaitState; actions: NextAction[] } {
  const { deadlineAtMs, outcomeWaitMs, waitMs } = waiting;
  if (waiting.overdue && nowMs >= deadlineAtMs + outcomeWaitMs) {
    return { waiting, actions: ['give_up'] };
  }
  const overdue = nowMs >= deadlineAtMs;
  const actions: NextAction[] = [];
  if ((cancelRequested || overdue) && !waiting.cancelSent) actions.push('cancel');
  if (overdue && !waiting.overdue) actions.push('mark_verifying');
  const cancelSent = waiting.cancelSent || actions.includes('cancel');
  const nextWaitMs = waiting.cancelSent ? Math.min(waitMs * 2, waitAfterCancelMaxMs) : waitMs * 2;
  return {
    waiting: {
      ...waiting,
      waitMs: actions.includes('cancel') ? Math.min(waitMs, waitAfterCancelMs) : nextWaitMs,
      cancelSent,
      overdue,
    },
    actions,
  };
}
