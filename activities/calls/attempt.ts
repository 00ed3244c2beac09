/** One attempt of an activity that may take long: it beats while it runs, and fails in words of the workflow. */
import { Context } from '@temporalio/activity';
import { toApplicationFailure } from './failures.ts';

const heartbeatIntervalMs = 4000;

/**
 * Runs one attempt with a heartbeat. `refusalsMax` counts attempts of the task queue: the first attempt
 * in a workflow task is one more.
 * @throws what the attempt throws, as a failure that the workflow understands (failures.ts)
 */
export async function attempt<Outcome>(
  run: () => Promise<Outcome>,
  refusalsMax = Infinity,
): Promise<Outcome> {
  const context = Context.current();
  const beat = setInterval(() => context.heartbeat(), heartbeatIntervalMs);
  try {
    return await run();
  } catch (error) {
    throw toApplicationFailure(error, !context.info.isLocal && context.info.attempt >= refusalsMax);
  } finally {
    clearInterval(beat);
  }
}
