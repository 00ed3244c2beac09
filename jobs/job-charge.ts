/** What a job costs, from its plan and what its calls delivered. */
import type { CallOutputs, JobPlan } from './job-plan.ts';

/** Micro-credits of what was delivered and is of use; at most the plan's price. */
export function chargeMicroOf(plan: JobPlan, outputs: readonly CallOutputs[]): number {
  return plan.calls.reduce((sum, call) => {
    if (!wasOfUse(plan, outputs, call.index)) return sum;
    const { delivered = 0, discountMicro = 0 } = outputs[call.index] ?? {};
    return sum + Math.min(delivered, call.quantity) * call.unitPriceMicro - discountMicro;
  }, 0);
}

/** A step is paid for together with what was made from it. */
function wasOfUse(plan: JobPlan, outputs: readonly CallOutputs[], callIndex: number): boolean {
  return plan.calls
    .filter((call) => call.inputFrom?.callIndex === callIndex)
    .every((call) => (outputs[call.index]?.artifacts.length ?? 0) > 0);
}
