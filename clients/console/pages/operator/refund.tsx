/** Button that refunds a charged job. */
import type { OperatorSchemas } from '../../gateway/operator.ts';
import { formatAmount, formatExact } from '../../parts/amounts.tsx';
import { CreditsField, CreditChangeIdField } from './credit-fields.tsx';
import { OperatorAction } from './operator-action.tsx';

/** Shows a Refund button, which is disabled if there are no credits left to refund. */
export function Refund({
  jobId,
  billing,
}: Pick<OperatorSchemas['JobExplanation'], 'jobId' | 'billing'>) {
  const { state, charged, refunded } = billing;
  // Rounds the difference, because floating-point subtraction may add decimals.
  const refundable = Number((charged - refunded).toFixed(6));
  const nothingToRefund =
    state === 'charged' ? 'All charged credits have been refunded.' : 'The job was not charged.';
  return (
    <OperatorAction
      verb="Refund"
      title="Refund the job"
      isDangerous
      disabledReason={refundable > 0 ? null : nothingToRefund}
      path={`/jobs/${jobId}/refunds`}
      body={(read) => ({ id: read('id'), credits: Number(read('credits')) })}
    >
      <p>
        Returns up to {formatAmount(refundable)} of the charged credits. The result of the job stays
        available.
      </p>
      <CreditsField
        required
        max={refundable}
        defaultValue={refundable}
        title={`At most ${formatExact(refundable)} credits`}
      />
      <CreditChangeIdField hint="for example the ticket number; the same id refunds only once" />
    </OperatorAction>
  );
}
