/** What a running job has been told from outside: notifications of its calls, and a wish to cancel. */
import { CancellationScope, defineSignal, log, setHandler } from '@temporalio/workflow';
import { lookNowSignalName, notificationSignalName, type CallNotification } from './contract.ts';

/** The desk of one workflow. */
export interface CallDesk {
  /** Set once somebody asked to cancel the job. */
  readonly cancelRequested: boolean;
  /** How often an operator has asked to look at once. */
  readonly looksAsked: number;
  /** The operation that a notification named for a call whose submit never answered. */
  adoptedId: (callIndex: number) => string | undefined;
  /** From now on only notifications of this operation count for the call. */
  expect: (callIndex: number, operationId: string) => void;
  /** Whether a notification of the call waits to be looked at. */
  hasNews: (callIndex: number) => boolean;
  takeNews: (callIndex: number) => void;
  /** An activity heard the notification that this workflow was not told of. */
  bringNews: (callIndex: number, operationId: string) => void;
}

/** Opens the desk. Called first in a workflow: signals that came earlier are handed over at once. */
export function openCallDesk(): CallDesk {
  const told = new Map<number, string>();
  const expected = new Map<number, string>();
  let cancelRequested = false;
  let looksAsked = 0;

  setHandler(defineSignal<[CallNotification]>(notificationSignalName), (notification) => {
    const { callIndex, operationId } = notification;
    const other = expected.has(callIndex) && expected.get(callIndex) !== operationId;
    if (other) log.warn('a notification names another operation', { callIndex, operationId });
    else told.set(callIndex, operationId);
  });
  setHandler(defineSignal(lookNowSignalName), () => {
    looksAsked += 1;
  });
  // Cancellation is a wish, not an exception: after dispatch the provider's verdict decides.
  CancellationScope.current().cancelRequested.catch(() => {
    cancelRequested = true;
  });

  return {
    get cancelRequested() {
      return cancelRequested;
    },
    get looksAsked() {
      return looksAsked;
    },
    adoptedId: (callIndex) => told.get(callIndex),
    expect(callIndex, operationId) {
      expected.set(callIndex, operationId);
      if (told.get(callIndex) !== operationId) told.delete(callIndex);
    },
    hasNews: (callIndex) => told.has(callIndex),
    takeNews: (callIndex) => void told.delete(callIndex),
    bringNews: (callIndex, operationId) => void told.set(callIndex, operationId),
  };
}
