/** What a running job has been told from outside: notifications of its calls, and a wish to cancel. */
import { CancellationScope, log, setHandler } from '@temporalio/workflow';
import { checkNow, providerNotification } from '../jobs/contract.ts';

/** The signals of one workflow. */
export interface JobSignals {
  /** Set once somebody asked to cancel the job. */
  readonly cancelRequested: boolean;
  /** How often somebody has asked to check at once. */
  readonly checksAsked: number;
  /** Whether a notification of the call waits to be checked. */
  isNotified: (callIndex: number) => boolean;
  /** The notification is being checked: the next one counts again. */
  takeNotification: (callIndex: number) => void;
  /** From now on only notifications of this operation count for the call. */
  expect: (callIndex: number, operationId: string) => void;
}

/** Listens. Called first in a workflow: signals that came earlier are handed over at once. */
export function listenToSignals(): JobSignals {
  const notified = new Map<number, string>();
  const expected = new Map<number, string>();
  let cancelRequested = false;
  let checksAsked = 0;

  setHandler(providerNotification, ({ callIndex, operationId }) => {
    const isOther = expected.has(callIndex) && expected.get(callIndex) !== operationId;
    if (isOther) log.warn('a notification names another operation', { callIndex, operationId });
    else notified.set(callIndex, operationId);
  });
  setHandler(checkNow, () => {
    checksAsked += 1;
  });
  // Cancellation is a wish, not an exception: after dispatch the provider's verdict decides.
  CancellationScope.current().cancelRequested.catch(() => {
    cancelRequested = true;
  });

  return {
    get cancelRequested() {
      return cancelRequested;
    },
    get checksAsked() {
      return checksAsked;
    },
    isNotified: (callIndex) => notified.has(callIndex),
    takeNotification: (callIndex) => void notified.delete(callIndex),
    expect(callIndex, operationId) {
      expected.set(callIndex, operationId);
      if (notified.get(callIndex) !== operationId) notified.delete(callIndex);
    },
  };
}
