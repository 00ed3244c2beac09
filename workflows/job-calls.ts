/** Runs the calls of a job in parallel, except a call that needs the result of another call. */
import type { CallOutputs, JobPlan, PlannedCall } from '../domain/job-plan.ts';
import { createFailure } from './failures.ts';
import { runCall } from './provider-call.ts';
import { toPublicError } from './public-errors.ts';
import type { RunningJob } from './running-job.ts';

/**
 * Runs all calls of a job. If some calls fail, returns the outputs of the others, with an error for
 * each failed call.
 * @throws the failure of a call if a required call failed or no call delivered an output of the job
 */
export async function runCalls(job: RunningJob): Promise<CallOutputs[]> {
  const { plan } = job;
  const callRuns: Promise<CallOutputs>[] = [];
  for (const call of plan.calls) {
    const source = call.inputFrom ? callRuns[call.inputFrom.callIndex] : undefined;
    callRuns.push(source ? runCallWithInput(source, job, call) : runCall(job, call));
  }
  const results = await Promise.allSettled(callRuns);
  const hasOutput = results.some(
    (result, index) => result.status === 'fulfilled' && !isInputOfAnotherCall(plan, index),
  );
  for (const [index, result] of results.entries()) {
    const endsJob = !hasOutput || plan.calls[index]?.required;
    if (result.status === 'rejected' && endsJob) throw result.reason;
  }
  return results.map((result, callIndex) => {
    if (result.status === 'fulfilled') return result.value;
    const error = toPublicError(result.reason);
    return { callIndex, artifacts: [], data: null, delivered: 0, error };
  });
}

/**
 * Runs a call whose input is the result of an earlier call. If the earlier call failed, this call
 * fails with the same failure.
 */
async function runCallWithInput(
  source: Promise<CallOutputs>,
  job: RunningJob,
  call: PlannedCall,
): Promise<CallOutputs> {
  const [artifact] = (await source).artifacts;
  if (!artifact) throw createFailure('PROVIDER_ERROR', 'the earlier call delivered no artifact');
  return runCall(job, call, artifact.storageKey);
}

/**
 * Returns whether the result of a call is only the input of another call and not an output of the
 * job.
 */
function isInputOfAnotherCall(plan: JobPlan, callIndex: number): boolean {
  return plan.calls.some((call) => call.inputFrom?.callIndex === callIndex);
}
