import { Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { beforeAll, describe, expect, it } from 'vitest';
import { createLogger } from '../../platform/logger.ts';
import { installRuntime } from '../../platform/temporal.ts';
import { capabilities } from '../../studio/registry.ts';
import { loadWorkflowBundle } from '../../worker/bundle.ts';
import { readHistories } from '../harness/histories.ts';

const recorded = await readHistories();
beforeAll(() => installRuntime(createLogger('replay', 'silent')));

describe('every recorded history', () => {
  it.each(recorded.map((entry) => [entry.name, entry] as const))(
    'replays: %s',
    async (_name, run) => {
      const workflowBundle = await loadWorkflowBundle();
      await Worker.runReplayHistory({ workflowBundle }, run.history, run.workflowId);
    },
  );

  it('is there for each capability: success, failure, cancel and deadline', () => {
    const names = recorded.map((entry) => entry.name);
    for (const { type } of capabilities) {
      for (const ending of ['completed', 'failed', 'canceled', 'failed-deadline']) {
        expect(names).toContain(`${type}.${ending}`);
      }
    }
  });
});

describe('a delivery of a webhook', () => {
  it('is recorded with each of its endings', () => {
    const names = recorded.map((entry) => entry.name);
    for (const ending of ['completed', 'completed-retried', 'failed', 'failed-gone']) {
      expect(names).toContain(`webhookDelivery.${ending}`);
    }
    expect(names).toContain('imageGenerate.completed-told');
  });
});

describe('a workflow whose steps changed', () => {
  it.each([
    ['imageGenerate.completed', 'reserveSubmitCharge', 'reserveSubmitSettle'],
    ['dialogueGenerate.completed', 'settleJob', 'settleJobLater'],
    ['dialogueGenerate.completed', 'reserveJob', 'reserveCredits'],
    ['musicGenerate.completed', 'submitCallAtOnce', 'sendCallAtOnce'],
  ])('does not replay %s: %s → %s', async (name, from, to) => {
    const { code } = await loadWorkflowBundle();
    const changed = code.replaceAll(`.${from}(`, `.${to}(`).replaceAll(`.${from},`, `.${to},`);
    expect(changed).not.toBe(code);
    const run = recorded.find((entry) => entry.name === name);
    if (!run) throw new Error('the history is recorded');
    await expect(
      Worker.runReplayHistory({ workflowBundle: { code: changed } }, run.history, run.workflowId),
    ).rejects.toThrow(DeterminismViolationError);
  });
});
