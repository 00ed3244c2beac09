/** Calculates what a job is charged. */
import type { CallOutputs, JobPlan } from './job-plan.ts';

/**
 * Calculates the charge for the delivered outputs, in micro-credits. It never exceeds the price in
 * the plan.
 */
export function calculateChargeMicro(plan: JobPlan, outputs: readonly CallOutputs[]): number {
  return plan.calls.reduce((sum, call) => {
    if (!isCharged(plan, outputs, call.index)) return sum;
    const { delivered = 0, discountMicro = 0 } = outputs[call.index] ?? {};
    return sum + Math.min(delivered, call.quantity) * call.unitPriceMicro - discountMicro;
  }, 0);
}

/**
 * Returns whether a call is charged. A call whose result is the input of other calls is charged
 * only if all of them delivered.
 */
function isCharged(plan: JobPlan, outputs: readonly CallOutputs[], callIndex: number): boolean {
  return plan.calls
    .filter((call) => call.inputFrom?.callIndex === callIndex)
    .every((call) => (outputs[call.index]?.artifacts.length ?? 0) > 0);
}
