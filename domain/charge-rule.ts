/** Calculates the charge of a job. */
import type { CallOutputs, JobPlan } from './job-plan.ts';

/**
 * Calculates the charge of a job for its delivered outputs, in micro-credits. It exceeds the price in
 * the plan only if a provider reports more than was measured (`PlannedCall.quantityMax`).
 */
export function calculateChargeMicro(plan: JobPlan, outputs: readonly CallOutputs[]): number {
  return plan.calls.reduce((sum, call) => {
    if (!isCharged(plan, outputs, call.index)) return sum;
    const { delivered = 0, discountMicro = 0 } = outputs[call.index] ?? {};
    const units = Math.min(delivered, call.quantityMax ?? call.quantity);
    return sum + units * call.unitPriceMicro - discountMicro;
  }, 0);
}

/**
 * Returns whether a call is charged. If the result of the call is the input of other calls, it is
 * charged only if each of them delivered an artifact.
 */
function isCharged(plan: JobPlan, outputs: readonly CallOutputs[], callIndex: number): boolean {
  return plan.calls
    .filter((call) => call.inputFrom?.callIndex === callIndex)
    .every((call) => (outputs[call.index]?.artifacts.length ?? 0) > 0);
}
