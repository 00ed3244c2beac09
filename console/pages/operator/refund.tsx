/** The refund of a charged job. */
import type { OperatorSchemas } from '../../gateway/operator.ts';
import { amountText, exactText } from '../../parts/amounts.tsx';
import { CreditsField, MoveIdField } from './credit-fields.tsx';
import { ReasonedAction } from './reasoned-action.tsx';

/** Shows the button, which is disabled while no charged credits are left to refund. */
export function Refund({
  jobId,
  billing,
}: Pick<OperatorSchemas['ExplainedJob'], 'jobId' | 'billing'>) {
  const { state, charged, refunded } = billing;
  // The difference of two decimal fractions may have more than six decimals.
  const left = Number((charged - refunded).toFixed(6));
  const nothingLeft =
    state === 'charged' ? 'All charged credits were refunded.' : 'The job was not charged.';
  return (
    <ReasonedAction
      verb="Refund"
      title="Refund the job"
      isDangerous
      disabledReason={left > 0 ? null : nothingLeft}
      path={`/jobs/${jobId}/refunds`}
      body={(read) => ({ id: read('id'), credits: Number(read('credits')) })}
    >
      <p>
        Gives charged credits back, at most {amountText(left)}. The job stays charged, and its
        result stays available.
      </p>
      <CreditsField required max={left} defaultValue={left} title={`At most ${exactText(left)}`} />
      <MoveIdField hint="for example of the ticket; the same id refunds only once" />
    </ReasonedAction>
  );
}
