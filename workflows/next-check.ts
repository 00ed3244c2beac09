/**
 * Decides when to check a call again, and what to do when a check finds it still pending. The
 * functions are pure; test/workflows/next-check.test.ts lists their cases in a table.
 */

/** State of a call that waits for its outputs. Times are in milliseconds of workflow time. */
export interface WaitState {
  deadlineAtMs: number;
  /** How long to keep waiting for the provider's outcome after the deadline. */
  outcomeWaitMs: number;
  /** Wait before the next check. A check request or the deadline can end it earlier. */
  waitMs: number;
  /** True if a cancellation was sent to the provider. */
  cancelSent: boolean;
  /** True if the deadline has passed and the outcome is being verified. */
  overdue: boolean;
}

/** Current time and cancellation state after a check that found the call pending. */
export interface PendingCheck {
  nowMs: number;
  cancelRequested: boolean;
}

/** Action to take before the next wait; `give_up` ends the call. */
export type NextAction = 'cancel' | 'mark_verifying' | 'give_up';

/**
 * Wait before the first check after a cancellation. It is short, because a provider usually
 * confirms a cancellation soon.
 */
const afterCancelMs = 1000;
const afterCancelMaxMs = 30_000;

/** Returns how long to wait from now, in milliseconds. */
export function nextWaitMs(waiting: WaitState, nowMs: number): number {
  const { deadlineAtMs, outcomeWaitMs, overdue, waitMs } = waiting;
  const endsAtMs = deadlineAtMs + (overdue ? outcomeWaitMs : 0);
  return Math.max(1, Math.min(waitMs, endsAtMs - nowMs));
}

/** Decides what to do after a check that found the call pending, and how long to wait then. */
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
  const longerMs = waiting.cancelSent ? Math.min(waitMs * 2, afterCancelMaxMs) : waitMs * 2;
  return {
    waiting: {
      ...waiting,
      waitMs: actions.includes('cancel') ? Math.min(waitMs, afterCancelMs) : longerMs,
      cancelSent,
      overdue,
    },
    actions,
  };
}
