/** Actions of operators on a job: check with the provider, settle by its outcome, cancel. */
import { useState } from 'react';
import { answered } from '../../gateway/client.ts';
import { operatorApi } from '../../gateway/operator.ts';
import { ReasonedAction } from './reasoned-action.tsx';

interface JobActionsProps {
  jobId: string;
  /** True if the job has ended. */
  isDone: boolean;
}

/** Shows the actions of operators on a job. */
export function JobActions({ jobId, isDone }: JobActionsProps) {
  const params = { path: { jobId } };
  const refusal = isDone ? 'The job has ended.' : null;
  return (
    <div className="row">
      <ReasonedAction
        verb="Reverify"
        title="Check with the provider"
        act={(reason) =>
          answered(
            operatorApi.POST('/api/admin/v1/jobs/{jobId}/reverify', { params, body: { reason } }),
          )
        }
      >
        <p>
          Checks each call with its provider. Nothing is charged or released; a waiting workflow
          receives a signal to check its calls.
        </p>
      </ReasonedAction>
      <Resettle jobId={jobId} refusal={refusal} />
      <ReasonedAction
        verb="Cancel"
        title="Cancel the job"
        isDangerous
        refusal={refusal}
        act={(reason) =>
          answered(
            operatorApi.POST('/api/admin/v1/jobs/{jobId}/cancel', { params, body: { reason } }),
          )
        }
      >
        <p>Sends a cancel to the provider. Calls that the provider has completed may be charged.</p>
      </ReasonedAction>
    </div>
  );
}

function Resettle({ jobId, refusal }: { jobId: string; refusal: string | null }) {
  const [release, setRelease] = useState(false);
  const params = { path: { jobId } };
  return (
    <ReasonedAction
      verb="Resettle"
      title="Settle by the outcome at the provider"
      isDangerous
      refusal={refusal}
      act={(reason) =>
        answered(
          operatorApi.POST('/api/admin/v1/jobs/{jobId}/resettle', {
            params,
            body: { reason, release },
          }),
        )
      }
    >
      <p>
        For a job whose workflow no longer exists. If the provider has accepted a call, a new run of
        the workflow completes the job; otherwise the credits are released. A running job is
        rejected.
      </p>
      <label className="check">
        <input
          type="checkbox"
          checked={release}
          onChange={({ target }) => setRelease(target.checked)}
        />
        Also release a job that the provider may still deliver
      </label>
    </ReasonedAction>
  );
}
