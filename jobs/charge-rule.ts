/** Price of the delivered outputs of a job. */
import type { CallOutputs, JobPlan } from './job-plan.ts';

/** Calculates the micro-credits to charge for the delivered outputs; at most the plan's price. */
export function calculateChargeMicro(plan: JobPlan, outputs: readonly CallOutputs[]): number {
  return plan.calls.reduce((sum, call) => {
    if (!isCharged(plan, outputs, call.index)) return sum;
    const { delivered = 0, discountMicro = 0 } = outputs[call.index] ?? {};
    return sum + Math.min(delivered, call.quantity) * call.unitPriceMicro - discountMicro;
  }, 0);
}

/**
 * Returns whether a call is charged: a call whose result other calls use is charged only if they
 * all delivered.
 */
function isCharged(plan: JobPlan, outputs: readonly CallOutputs[], callIndex: number): boolean {
  return plan.calls
    .filter((call) => call.inputFrom?.callIndex === callIndex)
    .every((call) => (outputs[call.index]?.artifacts.length ?? 0) > 0);
}
