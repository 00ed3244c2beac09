/** Actions of operators on a job: check with the provider, settle by its outcome, cancel. */
import { ReasonedAction } from './reasoned-action.tsx';

interface JobActionsProps {
  jobId: string;
  /** True if the job has ended. */
  isDone: boolean;
}

/** Shows the actions of operators on a job. */
export function JobActions({ jobId, isDone }: JobActionsProps) {
  const disabledReason = isDone ? 'The job has ended.' : null;
  return (
    <div className="row">
      <ReasonedAction
        verb="Reverify"
        title="Check with the provider"
        path={`/jobs/${jobId}/reverify`}
      >
        <p>
          Checks each call with its provider. Nothing is charged or released; a waiting workflow
          receives a signal to check its calls.
        </p>
      </ReasonedAction>
      <ReasonedAction
        verb="Resettle"
        title="Settle by the outcome at the provider"
        isDangerous
        disabledReason={disabledReason}
        path={`/jobs/${jobId}/resettle`}
        body={(read) => ({ release: read('release') !== '' })}
      >
        <p>
          For a job whose workflow no longer exists. If the provider has accepted a call, a new run
          of the workflow completes the job; otherwise the credits are released. A running job is
          rejected.
        </p>
        <label className="check">
          <input type="checkbox" name="release" />
          Also release a job that the provider may still deliver
        </label>
      </ReasonedAction>
      <ReasonedAction
        verb="Cancel"
        title="Cancel the job"
        isDangerous
        disabledReason={disabledReason}
        path={`/jobs/${jobId}/cancel`}
      >
        <p>Sends a cancel to the provider. Calls that the provider has completed may be charged.</p>
      </ReasonedAction>
    </div>
  );
}
