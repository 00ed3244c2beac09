/** Receives the signals and the cancellation request of a running job. */
import { CancellationScope, log, setHandler } from '@temporalio/workflow';
import { checkNow, providerNotification, type CallNotification } from '../domain/job-contract.ts';

/**
 * Registers the signal handlers. The workflow calls this function first, because the SDK delivers
 * signals that have already arrived as soon as their handler is registered.
 */
export function listenToSignals() {
  const notifiedOperations = new Map<number, string>();
  const expectedOperations = new Map<number, string>();
  let cancelRequested = false;
  let checkRequests = 0;

  setHandler(providerNotification, (notification) => {
    if (!isNotification(notification)) {
      log.warn('ignored a notification that cannot be read');
      return;
    }
    const { callIndex, operationId } = notification;
    const isUnexpected =
      expectedOperations.has(callIndex) && expectedOperations.get(callIndex) !== operationId;
    if (isUnexpected)
      log.warn('ignored a notification that identifies another operation', {
        callIndex,
        operationId,
      });
    else notifiedOperations.set(callIndex, operationId);
  });
  setHandler(checkNow, () => {
    checkRequests += 1;
  });
  // The handler only records that cancellation was requested, because a cancellation must not
  // interrupt a running step (studio-job.ts).
  const canceled = CancellationScope.current().cancelRequested.catch(() => {
    cancelRequested = true;
  });

  return {
    /** Promise that resolves when cancellation of the job is requested. */
    canceled,
    /** True after cancellation of the job was requested. */
    get cancelRequested() {
      return cancelRequested;
    },
    /** Number of `checkNow` signals received. */
    get checkRequests() {
      return checkRequests;
    },
    /**
     * Returns whether a notification for the call has arrived since the last `clearNotification`.
     */
    isNotified: (callIndex: number): boolean => notifiedOperations.has(callIndex),
    /**
     * Clears the notification of a call, so that `isNotified` returns true only after the next one.
     */
    clearNotification: (callIndex: number): void => void notifiedOperations.delete(callIndex),
    /**
     * Sets the operation of a call. Notifications for the call that identify another operation are
     * then ignored.
     */
    expectOperation(callIndex: number, operationId: string): void {
      expectedOperations.set(callIndex, operationId);
      if (notifiedOperations.get(callIndex) !== operationId) notifiedOperations.delete(callIndex);
    },
  };
}

/** Returns whether the input of a signal is a notification. Operators may send signals by hand. */
function isNotification(input: unknown): input is CallNotification {
  if (typeof input !== 'object' || input === null) return false;
  if (!('callIndex' in input) || !('operationId' in input)) return false;
  return typeof input.callIndex === 'number' && typeof input.operationId === 'string';
}
export type JobSignals = ReturnType<typeof listenToSignals>;
