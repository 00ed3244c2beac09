/**
 * When a call's provider is asked how far it is, and what follows when it is still at work: a pure
 * function, so that every case is a row of a table (test/workflows/next-check.test.ts).
 */

/** What a call waits with; times are workflow milliseconds. */
export interface Waiting {
  deadlineAtMs: number;
  /** How long after the deadline the provider's verdict is still waited for. */
  outcomeWaitMs: number;
  /** The wait before the next check, unless somebody asks for it or the deadline comes first. */
  waitMs: number;
  /** The provider has been asked to stop. */
  cancelSent: boolean;
  /** The deadline has passed: the outcome is being verified. */
  overdue: boolean;
}

/** A check that found the call pending. */
export interface Pending {
  nowMs: number;
  cancelRequested: boolean;
}

/** What is to be done before waiting again; `give_up` ends the call. */
export type Action = 'cancel' | 'mark_verifying' | 'give_up';

/** Once it was asked to stop, a provider answers soon or not at all. */
const afterCancelMs = 1000;
const afterCancelMaxMs = 30_000;

/** The milliseconds to wait from now. */
export function waitOf(waiting: Waiting, nowMs: number): number {
  const { deadlineAtMs, outcomeWaitMs, overdue, waitMs } = waiting;
  const endsAtMs = deadlineAtMs + (overdue ? outcomeWaitMs : 0);
  return Math.max(1, Math.min(waitMs, endsAtMs - nowMs));
}

/** What follows a check that found the call pending. */
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
