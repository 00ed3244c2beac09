/** Receives the signals and the cancellation of a running job. */
import { CancellationScope, log, setHandler } from '@temporalio/workflow';
import { checkNow, providerNotification } from '../jobs/contract.ts';

/**
 * Registers the signal handlers. The workflow calls this function first, because the SDK delivers
 * signals that have already arrived as soon as their handler is registered.
 */
export function listenToSignals() {
  const notified = new Map<number, string>();
  const expected = new Map<number, string>();
  let cancelRequested = false;
  let checkRequests = 0;

  setHandler(providerNotification, ({ callIndex, operationId }) => {
    const isUnexpected = expected.has(callIndex) && expected.get(callIndex) !== operationId;
    if (isUnexpected)
      log.warn('ignored a notification that identifies another operation', {
        callIndex,
        operationId,
      });
    else notified.set(callIndex, operationId);
  });
  setHandler(checkNow, () => {
    checkRequests += 1;
  });
  // A cancellation is only recorded here, because it must not interrupt a running step
  // (studio-job.ts).
  const canceled = CancellationScope.current().cancelRequested.catch(() => {
    cancelRequested = true;
  });

  return {
    /** Resolves when cancellation of the job is requested. */
    canceled,
    /** True once cancellation of the job was requested. */
    get cancelRequested() {
      return cancelRequested;
    },
    /** Number of `checkNow` signals received. */
    get checkRequests() {
      return checkRequests;
    },
    /**
     * Returns whether a notification for the call has arrived that `clearNotification` has not
     * cleared.
     */
    isNotified: (callIndex: number): boolean => notified.has(callIndex),
    /** Clears the notification of a call, so that a later one is noticed. */
    clearNotification: (callIndex: number): void => void notified.delete(callIndex),
    /** From now on, ignores notifications for the call that identify another operation. */
    expectOperation(callIndex: number, operationId: string): void {
      expected.set(callIndex, operationId);
      if (notified.get(callIndex) !== operationId) notified.delete(callIndex);
    },
  };
}
/** Signals of a job's workflow. */
export type JobSignals = ReturnType<typeof listenToSignals>;
