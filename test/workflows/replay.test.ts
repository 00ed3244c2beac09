import { Worker } from '@temporalio/worker';
import { beforeAll, describe, expect, it } from 'vitest';
import { createLogger } from '../../platform/logger.ts';
import { findFirstTaskEnd } from '../../executions/failing-workflows.ts';
import { installTestRuntime } from '../harness/runtime.ts';
import { capabilities } from '../../studio/capabilities/capability-registry.ts';
import { loadWorkflowBundle } from '../../worker/bundle.ts';
import { readHistories, readShape, type RecordedHistory } from '../harness/histories.ts';

const recorded = await readHistories();
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
    // Each history is a branch that running jobs may have taken, so no history may be deleted.
    expect(recorded).toHaveLength(43);
    expect(new Set(recorded.map(({ history }) => readShape(history))).size).toBe(43);
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

describe('a history that the SDK has damaged', () => {
  it('does not replay, and continues from its first task after a reset', async () => {
    const bundle = await loadWorkflowBundle();
    const damaged = await readHistories(new URL('diverging/', import.meta.url));
    const failures = await replayAll(damaged, bundle);
    expect(failures.map(({ name }) => name)).toEqual(['out-of-order', 'skipped-signal']);
    for (const { error } of failures) expect(String(error)).toContain('TMPRL1100');
    const reset = damaged.map((run) => {
      const events = run.history.events ?? [];
      const end = Number(findFirstTaskEnd(events));
      expect(end).toBe(4);
      return { ...run, history: { events: events.slice(0, end) } };
    });
    expect(await replayAll(reset, bundle)).toEqual([]);
  });
});
