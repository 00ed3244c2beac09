/**
 * Runs the calls of a job in parallel, except that a call whose input is the result of another call
 * waits for it.
 */
import type { CallOutputs, JobPlan, PlannedCall } from '../jobs/job-plan.ts';
import { failed } from './failures.ts';
import { runCall } from './provider-call.ts';
import { publicErrorOf } from './public-errors.ts';
import type { RunningJob } from './running-job.ts';

/**
 * Runs all calls. If some fail, returns the outputs of the others, with an error for each failed
 * call.
 * @throws the failure of a call, if a required call failed or no call delivered an output
 */
export async function runCalls(job: RunningJob): Promise<CallOutputs[]> {
  const { plan } = job;
  const started: Promise<CallOutputs>[] = [];
  for (const call of plan.calls) {
    const source = call.inputFrom ? started[call.inputFrom.callIndex] : undefined;
    started.push(source ? runOnResult(source, job, call) : runCall(job, call));
  }
  const ended = await Promise.allSettled(started);
  const hasOutput = ended.some(
    (end, index) => end.status === 'fulfilled' && !isInputOfAnother(plan, index),
  );
  for (const [index, end] of ended.entries()) {
    if (end.status === 'rejected' && (!hasOutput || plan.calls[index]?.required)) throw end.reason;
  }
  return ended.map((end, callIndex) => {
    if (end.status === 'fulfilled') return end.value;
    const error = publicErrorOf(end.reason);
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
  if (!artifact) throw failed('PROVIDER_ERROR', 'the earlier call delivered no artifact');
  return runCall(job, call, artifact.storageKey);
}

/** Returns whether this call only delivers the input of another call, and no output of the job. */
function isInputOfAnother(plan: JobPlan, callIndex: number): boolean {
  return plan.calls.some((call) => call.inputFrom?.callIndex === callIndex);
}
