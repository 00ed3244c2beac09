import { Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { beforeAll, describe, expect, it } from 'vitest';
import { createLogger } from '../../platform/logger.ts';
import { installRuntime } from '../../platform/temporal.ts';
import { capabilities } from '../../studio/registry.ts';
import { loadWorkflowBundle } from '../../worker/bundle.ts';
import { readHistories, shapeOf } from '../harness/histories.ts';

const recorded = await readHistories();
/** What must be among the shapes; more may be. */
const ways = [
  'completed',
  'completed-adopted',
  'completed-hung-submit',
  'completed-lost-webhook',
  'completed-retried',
  'completed-second-route',
  'completed-several-calls',
  'completed-told',
  'canceled',
  'failed-deadline',
  'failed-outcome-unknown',
  'failed-rejected',
].map((way) => `imageGenerate.${way}`);
const deliveries = ['completed', 'completed-retried', 'failed', 'failed-gone'].map(
  (way) => `webhookDelivery.${way}`,
);
beforeAll(() => installRuntime(createLogger('replay', 'silent')));

describe('every recorded history', () => {
  it.each(recorded.map((entry) => [entry.name, entry] as const))(
    'replays: %s',
    async (_name, run) => {
      const workflowBundle = await loadWorkflowBundle();
      await Worker.runReplayHistory({ workflowBundle }, run.history, run.workflowId);
    },
  );

  it('has a shape of its own', () => {
    const shapes = recorded.map(({ history }) => shapeOf(history));
    expect(new Set(shapes).size).toBe(shapes.length);
  });

  it.each([...ways, ...deliveries])('is there: %s', (name) => {
    expect(recorded.map((run) => run.name)).toContain(name);
  });

  it.each(capabilities.map(({ type }) => type))('replays under the type %s', async (type) => {
    const run = recorded.find(({ name }) => name === 'imageGenerate.completed');
    const started = run?.history.events?.[0]?.workflowExecutionStartedEventAttributes;
    if (!run || !started) throw new Error('the history is recorded');
    const workflowBundle = await loadWorkflowBundle();
    const [first, ...others] = run.history.events ?? [];
    const renamed = { ...started, workflowType: { name: type } };
    const events = [{ ...first, workflowExecutionStartedEventAttributes: renamed }, ...others];
    await Worker.runReplayHistory({ workflowBundle }, { events }, run.workflowId);
  });
});

describe('a workflow whose steps changed', () => {
  it.each([
    ['imageGenerate.completed', 'activities.reserve(', 'activities.hold('],
    ['imageGenerate.completed', 'activities.submit(', 'activities.send('],
    ['imageGenerate.completed', 'activities.charge(', 'activities.capture('],
    ['videoGenerate.completed', 'activities.store(', 'activities.keep('],
  ])('does not replay %s: %s → %s', async (name, from, to) => {
    const { code } = await loadWorkflowBundle();
    const changed = code.replaceAll(from, to);
    expect(changed).not.toBe(code);
    const run = recorded.find((entry) => entry.name === name);
    if (!run) throw new Error('the history is recorded');
    await expect(
      Worker.runReplayHistory({ workflowBundle: { code: changed } }, run.history, run.workflowId),
    ).rejects.toThrow(DeterminismViolationError);
  });
});
