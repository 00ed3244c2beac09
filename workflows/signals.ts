/** Signals and cancellation of a running job. */
import { CancellationScope, log, setHandler } from '@temporalio/workflow';
import { checkNow, providerNotification } from '../jobs/contract.ts';

/**
 * Registers the signal handlers. The workflow calls this function first, because the SDK then
 * delivers the signals that have already arrived.
 */
export function listenToSignals() {
  const notified = new Map<number, string>();
  const expected = new Map<number, string>();
  let cancelRequested = false;
  let checkRequests = 0;

  setHandler(providerNotification, ({ callIndex, operationId }) => {
    const isOther = expected.has(callIndex) && expected.get(callIndex) !== operationId;
    if (isOther) log.warn('a notification names another operation', { callIndex, operationId });
    else notified.set(callIndex, operationId);
  });
  setHandler(checkNow, () => {
    checkRequests += 1;
  });
  // A cancel is only recorded, because after a submit the provider's outcome decides.
  const canceled = CancellationScope.current().cancelRequested.catch(() => {
    cancelRequested = true;
  });

  return {
    /** Resolves when a cancel of the job is requested. */
    canceled,
    /** True once a cancel of the job was requested. */
    get cancelRequested() {
      return cancelRequested;
    },
    /** Number of requests to check at once. */
    get checkRequests() {
      return checkRequests;
    },
    /** Returns whether a notification of the call has not been checked yet. */
    isNotified: (callIndex: number): boolean => notified.has(callIndex),
    /** Marks the notification as checked: the next one counts again. */
    takeNotification: (callIndex: number): void => void notified.delete(callIndex),
    /** Counts only notifications of this operation for the call from now on. */
    expect(callIndex: number, operationId: string): void {
      expected.set(callIndex, operationId);
      if (notified.get(callIndex) !== operationId) notified.delete(callIndex);
    },
  };
}
/** Signals of a job's workflow. */
export type JobSignals = ReturnType<typeof listenToSignals>;
