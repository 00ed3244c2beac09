/**
 * Workflow of an action run: performs an operator's action on its jobs, a limited number per second.
 * The jobs and their states are rows, so each step may be repeated.
 */
import {
  CancellationScope,
  condition,
  continueAsNew,
  proxyActivities,
  setCurrentDetails,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.ts';
import type { ActionRunInput, ActionRunState } from '../domain/action-contract.ts';
import { searchAttributes } from '../domain/job-contract.ts';

/** Number of events after which the workflow continues as new. */
const historyLengthMax = 3000;

const { actOnJobs } = proxyActivities<Pick<Activities, 'actOnJobs'>>({
  startToCloseTimeout: '2 minutes',
  scheduleToCloseTimeout: '7 days',
  heartbeatTimeout: '15s',
  retry: { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '20s' },
  // Single jobs have the default priority 3.
  priority: { priorityKey: 4 },
});

/** Runs an action run until no job waits. A cancellation leaves the waiting jobs unchanged. */
export async function bulkAction(input: ActionRunInput): Promise<ActionRunState> {
  let cancel = false;
  void CancellationScope.current().cancelRequested.catch(() => {
    cancel = true;
  });
  return CancellationScope.nonCancellable(async () => {
    for (;;) {
      const state = await actOnJobs({ ...input, cancel });
      showState(state);
      if (state.status !== 'running') {
        upsertSearchAttributes([{ key: searchAttributes.jobStatus, value: state.status }]);
        return state;
      }
      // A further run would not know the cancellation.
      if (workflowInfo().historyLength > historyLengthMax && !cancel)
        await continueAsNew<typeof bulkAction>(input);
      await condition(() => cancel, '1s', { summary: `${input.perSecond} jobs per second` });
    }
  });
}

/** Shows the counts in Temporal's Current Details. */
function showState({ status, action, reason, waiting, done, rejected }: ActionRunState): void {
  setCurrentDetails(
    `**${status}: ${action}** (${reason})\n\n${done} done, ${rejected} rejected, ${waiting} waiting`,
  );
}
