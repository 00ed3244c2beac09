/**
 * Runs the calls of a job in parallel, except that a call whose input is the result of another call
 * waits for it.
 */
import type { CallOutputs, JobPlan, PlannedCall } from '../jobs/job-plan.ts';
import { createFailure } from './failures.ts';
import { runCall } from './provider-call.ts';
import { toPublicError } from './public-errors.ts';
import type { RunningJob } from './running-job.ts';

/**
 * Runs all calls. If some fail, returns the outputs of the others, with an error for each failed
 * call.
 * @throws the failure of a call, if a required call failed or no call delivered an output
 */
export async function runCalls(job: RunningJob): Promise<CallOutputs[]> {
  const { plan } = job;
  const runs: Promise<CallOutputs>[] = [];
  for (const call of plan.calls) {
    const source = call.inputFrom ? runs[call.inputFrom.callIndex] : undefined;
    runs.push(source ? runOnResult(source, job, call) : runCall(job, call));
  }
  const results = await Promise.allSettled(runs);
  const hasOutput = results.some(
    (result, index) => result.status === 'fulfilled' && !isInputOfAnother(plan, index),
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
 * Runs a call whose input is the result of an earlier call. If the earlier call failed, this one
 * fails in the same way.
 */
async function runOnResult(
  source: Promise<CallOutputs>,
  job: RunningJob,
  call: PlannedCall,
): Promise<CallOutputs> {
  const [artifact] = (await source).artifacts;
  if (!artifact) throw createFailure('PROVIDER_ERROR', 'the earlier call delivered no artifact');
  return runCall(job, call, artifact.storageKey);
}

/** Returns whether this call only delivers the input of another call, and no output of the job. */
function isInputOfAnother(plan: JobPlan, callIndex: number): boolean {
  return plan.calls.some((call) => call.inputFrom?.callIndex === callIndex);
}
