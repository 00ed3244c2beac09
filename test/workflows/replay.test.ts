import { Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { beforeAll, describe, expect, it } from 'vitest';
import { createLogger } from '../../platform/logger.ts';
import { installTestRuntime } from '../harness/runtime.ts';
import { capabilities } from '../../studio/registry.ts';
import { loadWorkflowBundle } from '../../worker/bundle.ts';
import { readHistories, readShape, type RecordedHistory } from '../harness/histories.ts';

const recorded = await readHistories();
/** Ends of jobs that must be recorded. */
const ends = [
  'completed',
  'completed-adopted',
  'completed-hung-submit',
  'completed-lost-webhook',
  'completed-retried',
  'completed-second-route',
  'completed-several-calls',
  'completed-with-webhook',
  'canceled',
  'failed-deadline',
  'failed-outcome-unknown',
  'failed-rejected',
].map((end) => `imageGenerate.${end}`);
const deliveries = ['completed', 'failed'].map((end) => `webhookDelivery.${end}`);
beforeAll(() => installTestRuntime(createLogger('replay', 'silent')));

/** Replays all histories by one worker; returns those that do not replay, with the error. */
async function replayAll(
  runs: readonly RecordedHistory[],
  workflowBundle: { code: string },
): Promise<{ name: string | undefined; error: Error }[]> {
  const failures = [];
  let replayed = 0;
  // The results are in the order of the runs.
  for await (const { error } of Worker.runReplayHistories({ workflowBundle }, runs)) {
    if (error) failures.push({ name: runs[replayed]?.name, error });
    replayed += 1;
  }
  expect(replayed).toBe(runs.length);
  return failures;
}

describe('every recorded history', () => {
  it('replays', async () => {
    expect(await replayAll(recorded, await loadWorkflowBundle())).toEqual([]);
  });

  it('has a shape that no other history has', () => {
    const shapes = recorded.map(({ history }) => readShape(history));
    expect(new Set(shapes).size).toBe(shapes.length);
  });

  it.each([...ends, ...deliveries])('includes %s', (name) => {
    expect(recorded.map((run) => run.name)).toContain(name);
  });

  it('replays under the workflow type of each capability', async () => {
    const run = recorded.find(({ name }) => name === 'imageGenerate.completed');
    const started = run?.history.events?.[0]?.workflowExecutionStartedEventAttributes;
    if (!run || !started) throw new Error('the history is recorded');
    const [first, ...others] = run.history.events ?? [];
    const renamed = capabilities.map(({ type: name }) => {
      const attributes = { ...started, workflowType: { name } };
      const events = [{ ...first, workflowExecutionStartedEventAttributes: attributes }, ...others];
      return { ...run, name, history: { events } };
    });
    expect(await replayAll(renamed, await loadWorkflowBundle())).toEqual([]);
  });
});

it.each([
  ['imageGenerate.completed', 'activities.reserve(', 'activities.hold('],
  ['imageGenerate.completed', 'activities.submit(', 'activities.send('],
  ['imageGenerate.completed', 'activities.charge(', 'activities.capture('],
  ['videoGenerate.completed', 'activities.store(', 'activities.keep('],
])('a workflow whose steps changed does not replay %s: %s → %s', async (name, from, to) => {
  const { code } = await loadWorkflowBundle();
  const changed = code.replaceAll(from, to);
  expect(changed).not.toBe(code);
  const run = recorded.find((entry) => entry.name === name);
  if (!run) throw new Error('the history is recorded');
  const failures = await replayAll([run], { code: changed });
  expect(failures).toEqual([{ name, error: expect.any(DeterminismViolationError) }]);
});
