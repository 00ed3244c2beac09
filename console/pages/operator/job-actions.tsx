/** What an operator can do to a job: ask the provider again, settle by evidence, cancel. */
import { useState } from 'react';
import { answered } from '../../gateway/client.ts';
import { operatorApi } from '../../gateway/operator.ts';
import { ReasonedAction } from './reasoned-action.tsx';

interface JobActionsProps {
  jobId: string;
  /** Whether it has ended. */
  isDone: boolean;
}

/** Offers the actions that operators have on a job. */
export function JobActions({ jobId, isDone }: JobActionsProps) {
  const params = { path: { jobId } };
  const refusal = isDone ? 'The job has ended.' : null;
  return (
    <div className="row">
      <ReasonedAction
        verb="Reverify"
        title="Ask the provider again"
        act={(reason) =>
          answered(
            operatorApi.POST('/api/admin/v1/jobs/{jobId}/reverify', { params, body: { reason } }),
          )
        }
      >
        <p>
          The provider is asked what became of each call. Nothing is charged or released by this; a
          workflow that waits is told to look.
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
        <p>
          The provider is asked to stop. What it has certainly not made is not charged; what is made
          by then may be.
        </p>
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
      title="Settle by evidence"
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
        For a job whose workflow is gone. What the provider has is taken up by a new run; where
        nothing was made, the credits are released. A job that runs is refused.
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
