/** Operators' actions on a job: check its calls with the provider, settle it, cancel it. */
import { OperatorAction } from './operator-action.tsx';

interface JobActionsProps {
  jobId: string;
  /** True if the job has ended. */
  isDone: boolean;
}

/** Shows the buttons that check, settle and cancel a job. */
export function JobActions({ jobId, isDone }: JobActionsProps) {
  const disabledReason = isDone ? 'The job has ended.' : null;
  return (
    <div className="row">
      <OperatorAction
        verb="Reverify"
        title="Check the calls with the provider"
        path={`/jobs/${jobId}/reverify`}
      >
        <p>
          Asks the provider for the state of each call. Charges and releases nothing. If a workflow
          is waiting for the provider, it is signaled to check its calls now.
        </p>
      </OperatorAction>
      <OperatorAction
        verb="Resettle"
        title="Settle the job based on what the provider reports"
        isDangerous
        disabledReason={disabledReason}
        path={`/jobs/${jobId}/resettle`}
        body={(read) => ({ release: read('release') !== '' })}
      >
        <p>
          Settles a job whose workflow is gone. If the provider accepted a call, a new workflow run
          completes the job. Otherwise the credits are released. This is not possible while the
          workflow runs.
        </p>
        <label className="check">
          <input type="checkbox" name="release" />
          Release the credits even if the provider may still deliver
        </label>
      </OperatorAction>
      <OperatorAction
        verb="Cancel"
        title="Cancel the job"
        isDangerous
        disabledReason={disabledReason}
        path={`/jobs/${jobId}/cancel`}
      >
        <p>
          Requests cancellation from the provider. Calls that are already completed may be charged.
        </p>
      </OperatorAction>
    </div>
  );
}
