/**
 * Every branch of a Studio job (workflows/studio-job.ts, provider-call.ts, steps.ts), with scripted
 * activities: their inputs, where they run, the end of the job; and each recorded history replays.
 */
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { WorkflowNotFoundError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { Worker } from '@temporalio/worker';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CheckOutcome } from '../../activities/check.ts';
import type { SubmitOutcome } from '../../activities/submit.ts';
import type { ReserveOutcome, EarlierSettlement } from '../../activities/reserve.ts';
import { toApplicationFailure } from '../../activities/activity-failures.ts';
import { ProviderFailure, type FailureKind } from '../../domain/provider-failure.ts';
import { checkNow, progressQuery } from '../../jobs/contract.ts';
import type { CallOutputs, PlannedCall } from '../../jobs/job-plan.ts';
import { loadWorkflowBundle } from '../../worker/bundle.ts';
import {
  artifactOf,
  inTurn,
  outputsOf,
  startScriptedJobs,
  type ScriptedJob,
  type ScriptedJobs,
} from '../harness/scripted-jobs.ts';
import { isWhole } from '../harness/slow.ts';

let scripted: ScriptedJobs;
beforeAll(async () => {
  scripted = await startScriptedJobs();
  // A worker's first task takes longer than a first attempt may.
  await (await scripted.start()).end();
});
afterAll(() => scripted.close());

/** Returns the failure of an activity whose provider has failed. */
function failure(kind: FailureKind, extras: { retryAfterMs?: number } = {}): Error {
  const error = new ProviderFailure(kind, `it is ${kind}`, extras);
  return toApplicationFailure(error, { attempt: 1, refusalsMax: 2 }) as Error;
}
/** Failure of the last attempt that a provider may refuse. */
const lastRefusal = toApplicationFailure(new ProviderFailure('not_accepted', 'it is busy'), {
  attempt: 2,
  refusalsMax: 2,
});
/** Failure inside the gateway, after which Temporal retries at once. */
const fault = (type = 'DatabaseAway'): Error =>
  ApplicationFailure.create({ message: 'our fault', type, nextRetryDelay: 10 });

const pending: CheckOutcome = {
  kind: 'pending',
  progress: { state: 'generating', queuePosition: null },
};
const ended: CheckOutcome = { kind: 'ended' };
const delivered = outputsOf(0);
const operation = { kind: 'operation', operation: { id: 'fal-0' } } as const;
const settledNow = {
  verdict: 'settled',
  balance: { posted: 0, reserved: 0, available: 0 },
} as const;
const reserved = (settledBefore: EarlierSettlement | null = null) => ({
  verdict: 'reserved' as const,
  repeated: settledBefore !== null,
  state: settledBefore ? 'released' : 'reserved',
  createdAt: new Date().toISOString(),
  balance: settledNow.balance,
  paused: [],
  settledBefore,
});

const pausedFal = { ...reserved(), paused: ['fal'] };
/** Failure of `awaitResume` while the provider is paused. */
const paused = ApplicationFailure.create({ message: 'paused: fal', type: 'PROVIDER_PAUSED' });
const stillPaused = inTurn<unknown, void>(paused);

/** Makes a gate at which an activity waits until the test opens it. */
function gate(): { open: () => void; passed: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { open: resolve, passed: promise };
}

/** Calls whose first timer fires so late that only a notification or a signal causes a check. */
const checkedRarely = (changes: Partial<PlannedCall> = {}): { calls: PlannedCall[] } => ({
  calls: [scripted.call({ firstCheckMs: 50_000, ...changes })],
});
const twoRoutes = (): { calls: PlannedCall[] } => ({
  calls: [scripted.call({ routes: [scripted.route('fal'), scripted.route('openai')] })],
});
const progressOf = ({ handle }: ScriptedJob) => handle.query(progressQuery);
const describeJobs = describe.concurrent;

describeJobs('a step', () => {
  it('runs as a local activity with the input that the plan contains', async () => {
    const job = await scripted.start({}, { calls: [scripted.call({ quantity: 3 })] });
    const end = await job.end();
    const { jobId, organizationId } = job.plan;
    const [call] = job.plan.calls;
    const task = { jobId, organizationId, callIndex: 0, routeIndex: 0, route: call?.routes[0] };
    const made = { output: call?.output, meter: 'artifact', quantity: 3, source: null };
    expect(end.steps).toEqual(['reserve', 'submit', 'check', 'store', 'charge']);
    expect(job.inputsOf('reserve')).toEqual([job.plan]);
    expect(job.inputsOf('submit')).toEqual([{ ...task, ...made, refusalsMax: 6 }]);
    expect(job.inputsOf('store')).toEqual([
      { ...task, ...made, refusalsMax: 6, operation: { id: 'fal-0' }, notified: false },
    ]);
    expect(job.inputsOf('check')).toEqual([
      { ...task, ...made, refusalsMax: 6, operation: { id: 'fal-0' } },
    ]);
    // One of the three requested images was delivered.
    expect(job.inputsOf('charge')).toEqual([
      { jobId, organizationId, chargeMicro: 1_000_000, outputs: [outputsOf(0)] },
    ]);
    expect(end.outcome).toEqual({
      jobId,
      status: 'completed',
      billing: 'charged',
      chargedMicro: 1_000_000,
      reason: null,
    });
    expect(end.details).toContain('**charged 1 credits**');
    expect(end.progress).toEqual({
      phase: 'charged 1 credits',
      calls: [{ call: 1, phase: 'delivered', providerRequestId: 'fal-0' }],
      failures: [],
    });
    expect(end).toMatchObject({ provider: 'fal', requests: ['fal-0'], errorCode: undefined });
  });

  it('is adopted by an activity, not sent again, if its submit takes more than three seconds', async () => {
    const submit = inTurn(async () => sleep(4500, operation));
    const adopt = inTurn(() => sleep(500, operation));
    const job = await scripted.start({ submit, adopt });
    await job.called('adopt');
    expect(await progressOf(job)).toMatchObject({
      calls: [{ phase: expect.stringMatching(/submitting to fal|fal is working on it/) }],
    });
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', 'submit', 'adopt on studio', 'check', 'store', 'charge']);
    expect(job.inputsOf('adopt')).toEqual(job.inputsOf('submit'));
    expect(end.progress.failures).toEqual([expect.stringContaining('submit of call 1')]);
  });

  it('goes to the task queue if the provider has no free slot, and this is not recorded as a failure', async () => {
    const job = await scripted.start({ submit: inTurn(fault('PROVIDER_BUSY'), operation) });
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', 'submit', 'submit on fal', 'check', 'store', 'charge']);
    expect(end.progress.failures).toEqual([]);
  });

  it('is retried until it works if it fails inside the gateway', async () => {
    const { reserve, charge } = { reserve: reserved(), charge: settledNow };
    const job = await scripted.start({
      reserve: inTurn(fault(), fault(), reserve),
      charge: inTurn(fault(), fault(), { ...charge, state: 'charged', charged: 7 }),
    });
    const end = await job.end();
    expect(end.steps).toEqual([
      'reserve',
      'reserve on studio',
      'reserve on studio',
      'submit',
      'check',
      'store',
      'charge',
      'charge on studio',
      'charge on studio',
    ]);
    expect(end.outcome).toMatchObject({ status: 'completed', chargedMicro: 7 });
  });

  it('is not retried after a final refusal', async () => {
    const job = await scripted.start({
      submit: inTurn<unknown, SubmitOutcome>(failure('content_policy')),
    });
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', 'submit', 'release']);
    expect(end.failure?.type).toBe('CONTENT_POLICY');
    expect(end.details).toContain('**released 1 credits: CONTENT_POLICY, it is content_policy**');
    expect(end.details).toContain('- call 1: no output: CONTENT_POLICY');
    expect(end.errorCode).toBe('CONTENT_POLICY');
  });

  it('stores a video in a queued activity, and runs a submit that returns its outputs in one', async () => {
    const output = { medium: 'video', format: null } as const;
    const film = await scripted.start({}, { calls: [scripted.call({ output })] });
    const routes = [scripted.route('openai', { notifies: false })];
    const submit = inTurn<unknown, SubmitOutcome>({
      kind: 'outputs',
      outputs: outputsOf(0),
      providerRequestId: 'req_7',
    });
    const inline = await scripted.start({ submit }, { calls: [scripted.call({ routes })] });
    expect((await film.end()).steps).toEqual([
      'reserve',
      'submit',
      'check',
      'store on fal',
      'charge',
    ]);
    const end = await inline.end();
    expect(end.steps).toEqual(['reserve', 'submit on openai', 'charge']);
    expect(end.requests).toEqual(['req_7']);
  });
});

describeJobs('a cancellation', () => {
  const canceled = {
    failure: { type: 'CANCELED' },
    errorCode: 'CANCELED',
    billingState: 'released',
    details: expect.stringMatching(/^\*\*released 1 credits: CANCELED, /),
  };

  it('before any provider call releases the reservation and sends nothing', async () => {
    const door = gate();
    const reserve = inTurn<unknown, ReserveOutcome>(fault(), async () => {
      await door.passed;
      return reserved();
    });
    const job = await scripted.start({ reserve });
    await job.called('reserve', 2);
    await job.handle.cancel();
    door.open();
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', 'reserve on studio', 'release']);
    expect(end).toMatchObject(canceled);
    expect(job.inputsOf('release')).toEqual([
      expect.objectContaining({
        status: 'canceled',
        error: {
          code: 'CANCELED',
          message: 'the job was canceled before a provider accepted the call',
        },
      }),
    ]);
  });

  it('ends the wait that the provider requested', async () => {
    const submit = inTurn(failure('not_accepted', { retryAfterMs: 50_000 }), operation);
    const job = await scripted.start({ submit }, twoRoutes());
    await job.called('submit');
    await job.handle.cancel();
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', 'submit', 'release']);
    expect(end).toMatchObject(canceled);
  });

  it('during repeated refusals ends the job as canceled, not as failed', async () => {
    const door = gate();
    const submit = inTurn(failure('not_accepted'), async (): Promise<SubmitOutcome> => {
      await door.passed;
      throw lastRefusal;
    });
    const job = await scripted.start({ submit });
    await job.called('submit', 2);
    await job.handle.cancel();
    door.open();
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', 'submit', 'submit on fal', 'release']);
    expect(end).toMatchObject(canceled);
  });

  it('between two attempts of a submit ends the job, and the call is not sent again', async () => {
    const busy = failure('not_accepted', { retryAfterMs: 40_000 });
    const submit = inTurn<unknown, SubmitOutcome>(failure('not_accepted'), busy, operation);
    const job = await scripted.start({ submit });
    await job.called('submit', 2);
    await sleep(300);
    await job.handle.cancel();
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', 'submit', 'submit on fal', 'adopt on studio', 'release']);
    expect(end).toMatchObject(canceled);
  });

  it('during a queued submit waits for its response, then asks the provider to stop', async () => {
    const door = gate();
    const submit = inTurn<unknown, SubmitOutcome>(fault('PROVIDER_BUSY'), async () => {
      await door.passed;
      return operation;
    });
    const check = inTurn<unknown, CheckOutcome>(pending, failure('canceled'));
    const job = await scripted.start({ submit, check }, checkedRarely());
    await job.called('submit', 2);
    await job.handle.cancel();
    await sleep(300);
    door.open();
    const end = await job.end();
    expect(end.steps.slice(2)).toEqual(['submit on fal', 'check', 'cancel', 'check', 'release']);
    expect(end).toMatchObject(canceled);
  });

  it('during a submit waits for its response, then asks the provider to stop', async () => {
    const door = gate();
    const submit = inTurn(async () => {
      await door.passed;
      return operation;
    });
    const check = inTurn<unknown, CheckOutcome>(pending, failure('canceled'));
    const job = await scripted.start({ submit, check }, checkedRarely());
    await job.called('submit');
    await job.handle.cancel();
    door.open();
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', 'submit', 'check', 'cancel', 'check', 'release']);
    expect(end).toMatchObject(canceled);
    expect(job.inputsOf('cancel')).toEqual([
      expect.objectContaining({ callIndex: 0, operation: { id: 'fal-0' } }),
    ]);
  });

  it('that reaches the provider too late charges the job', async () => {
    const check = inTurn<unknown, CheckOutcome>(pending, pending, ended);
    const job = await scripted.start({ check });
    await job.called('check');
    await job.handle.cancel();
    const end = await job.end();
    expect(end.steps.filter((step) => step === 'cancel')).toHaveLength(1);
    expect(end.outcome).toMatchObject({ status: 'completed', billing: 'charged' });
  });

  it('that does not reach the provider changes nothing', async () => {
    const check = inTurn<unknown, CheckOutcome>(pending, ended);
    const cancel = inTurn<unknown, 'requested'>(ApplicationFailure.nonRetryable('no such path'));
    const job = await scripted.start({ check, cancel }, checkedRarely());
    await job.called('submit');
    await job.handle.cancel();
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', 'submit', 'check', 'cancel', 'check', 'store', 'charge']);
    expect(end.progress.failures).toEqual([
      expect.stringContaining('cancel of call 1 at fal: no such path'),
    ]);
    expect(end.outcome).toMatchObject({ status: 'completed' });
  });

  it.each(['store', 'assemble', 'charge', 'release'] as const)(
    'during %s comes too late to change the result',
    async (verb) => {
      const door = gate();
      /** Fails the first attempt, so that the cancel arrives during an ordinary activity. */
      const slowly = <Outcome>(outcome: Outcome) =>
        inTurn<unknown, Outcome>(fault(), async () => {
          await door.passed;
          return outcome;
        });
      const scripts = {
        store: { store: slowly(delivered) },
        assemble: { assemble: slowly(outputsOf(1)) },
        charge: { charge: slowly({ ...settledNow, state: 'charged' as const, charged: 1 }) },
        release: {
          check: inTurn<unknown, CheckOutcome>(failure('failed')),
          release: slowly({ ...settledNow, state: 'released' as const, charged: 0 }),
        },
      };
      const job = await scripted.start(scripts[verb], { assembly: 'concat_audio' });
      await job.called(verb, 2);
      await job.handle.cancel();
      door.open();
      const end = await job.end();
      expect(end.steps).not.toContain('cancel');
      if (verb === 'release') expect(end.failure?.type).toBe('PROVIDER_ERROR');
      else expect(end.outcome).toMatchObject({ status: 'completed', billing: 'charged' });
    },
  );

  it('while the provider is paused releases the reservation and submits nothing', async () => {
    const job = await scripted.start({ reserve: inTurn(pausedFal), awaitResume: stillPaused });
    await job.called('awaitResume');
    await job.handle.cancel();
    expect(await job.end()).toMatchObject({
      steps: ['reserve', 'awaitResume on studio', 'release'],
      ...canceled,
    });
  });

  it('with several calls is sent to the provider of each running call', async () => {
    const check = inTurn<{ callIndex: number }, CheckOutcome>(async ({ callIndex }) => {
      const asked = job.inputsOf('cancel').some((task) => task.callIndex === callIndex);
      if (asked) throw failure('canceled');
      return pending;
    });
    const calls = [0, 1, 2].map((index) => scripted.call({ index, firstCheckMs: 50_000 }));
    const job = await scripted.start({ check }, { calls });
    await job.called('submit', 3);
    await job.handle.cancel();
    const end = await job.end();
    expect(
      job
        .inputsOf('cancel')
        .map(({ callIndex }) => callIndex)
        .toSorted(),
    ).toEqual([0, 1, 2]);
    expect(end.failure?.type).toBe('CANCELED');
  });
});

describeJobs('after the deadline', () => {
  const soon = { deadlineMs: 500, outcomeWaitMs: 700 };

  it('the provider receives a cancel, and the outcome is unknown if it does not confirm an end', async () => {
    const job = await scripted.start({ check: inTurn(pending) }, { ...checkedRarely(), ...soon });
    const end = await job.end();
    expect(end.steps).toEqual([
      'reserve',
      'submit',
      'check',
      'cancel',
      'markVerifying',
      'check',
      'release',
    ]);
    expect(job.inputsOf('markVerifying')).toEqual([job.plan.jobId]);
    expect(end.failure?.type).toBe('OUTCOME_UNKNOWN');
    expect(job.inputsOf('release')).toEqual([
      expect.objectContaining({
        status: 'failed',
        error: {
          code: 'OUTCOME_UNKNOWN',
          message: 'the provider reported no outcome after the deadline',
        },
      }),
    ]);
  });

  it('no call is sent, although its provider accepts calls again', async () => {
    const busy = failure('not_accepted', { retryAfterMs: 30_000 });
    const submit = inTurn<unknown, SubmitOutcome>(failure('not_accepted'), busy, operation);
    const job = await scripted.start({ submit }, { deadlineMs: 10_000 });
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', 'submit', 'submit on fal', 'release']);
    expect(end.failure?.type).toBe('PROVIDER_ERROR');
  });

  it('no further route is used', async () => {
    const submit = inTurn<unknown, SubmitOutcome>(async () => {
      await sleep(1500);
      throw failure('refused');
    });
    const job = await scripted.start({ submit }, { ...twoRoutes(), deadlineMs: 1000 });
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', 'submit', 'release']);
    expect(end.failure?.type).toBe('DEADLINE_EXCEEDED');
  });

  it('a call that still waits for a worker of its provider is not sent', async () => {
    const routes = [scripted.route('fal', { notifies: false, taskQueue: 'no-worker' })];
    const calls = [scripted.call({ routes })];
    const end = await (await scripted.start({}, { calls, deadlineMs: 1200 })).end();
    expect(end.steps).toEqual(['reserve', 'adopt on studio', 'release']);
    expect(end.failure?.type).toBe('DEADLINE_EXCEEDED');
  });

  it('a late result is kept: delivered outputs are charged', async () => {
    const job = await scripted.start(
      { check: inTurn(pending) },
      { ...checkedRarely(), ...soon, outcomeWaitMs: 50_000 },
    );
    await job.called('markVerifying');
    await job.notify();
    const end = await job.end();
    expect(end.steps.slice(-3)).toEqual(['markVerifying', 'store', 'charge']);
    expect(end.outcome).toMatchObject({ status: 'completed' });
  });

  it('a call that the provider canceled fails with DEADLINE_EXCEEDED', async () => {
    const check = inTurn<unknown, CheckOutcome>(pending, failure('canceled'));
    const job = await scripted.start({ check }, { ...checkedRarely(), ...soon });
    const end = await job.end();
    expect(end.failure?.type).toBe('DEADLINE_EXCEEDED');
    expect(end.errorCode).toBe('DEADLINE_EXCEEDED');
  });

  it('a job that waits for a paused provider fails', async () => {
    const script = { reserve: inTurn(pausedFal), awaitResume: stillPaused };
    const end = await (await scripted.start(script, soon)).end();
    expect(end.steps).toEqual(['reserve', 'awaitResume on studio', 'release']);
    expect(end.failure?.type).toBe('DEADLINE_EXCEEDED');
  });

  it('a check that was running when the deadline passed counts, at run time and in replay', async () => {
    const check = inTurn<unknown, CheckOutcome>(() => sleep(1500, pending), ended);
    const calls = [scripted.call({ firstCheckMs: 100 })];
    const job = await scripted.start({ check }, { calls, deadlineMs: 1000 });
    const end = await job.end();
    expect(end.steps.slice(2)).toEqual([
      'check',
      'cancel',
      'markVerifying',
      'check',
      'store',
      'charge',
    ]);
  });

  it('the job skips a provider whose Retry-After ends later, and calls the next provider', async () => {
    const busy = failure('not_accepted', { retryAfterMs: 3_600_000 });
    const second = await scripted.start(
      { submit: inTurn(busy, { kind: 'operation', operation: { id: 'openai-0' } }) },
      twoRoutes(),
    );
    const none = await scripted.start({ submit: inTurn<unknown, SubmitOutcome>(busy) });
    expect(await second.end()).toMatchObject({
      steps: ['reserve', 'submit', 'submit', 'check', 'store', 'charge'],
      provider: 'openai',
    });
    expect((await none.end()).failure?.type).toBe('PROVIDER_ERROR');
  });
});

describeJobs('a paused provider', () => {
  it('keeps its jobs waiting in one activity, which a signal repeats at once', async () => {
    const awaitResume = inTurn<unknown, void>(paused, paused, undefined);
    const job = await scripted.start({ reserve: inTurn(pausedFal), awaitResume });
    for (const times of [1, 2]) {
      await job.called('awaitResume', times);
      await sleep(300);
      expect(await progressOf(job)).toMatchObject({
        phase: '1 call(s), 1 credits reserved',
        calls: [{ call: 1, phase: 'waiting: the provider is paused', providerRequestId: null }],
      });
      await job.handle.signal(checkNow);
    }
    const waits = Array(3).fill('awaitResume on studio');
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', ...waits, 'submit', 'check', 'store', 'charge']);
  });

  it('is detected by the submit if the pause comes after the reservation', async () => {
    const submit = inTurn<unknown, SubmitOutcome>({ kind: 'paused' }, operation);
    const end = await (await scripted.start({ submit })).end();
    const steps = [
      'reserve',
      'submit',
      'awaitResume on studio',
      'submit',
      'check',
      'store',
      'charge',
    ];
    expect(end.steps).toEqual(steps);
  });

  it('is skipped if the call has another route', async () => {
    const submit = inTurn<unknown, SubmitOutcome>({
      kind: 'operation',
      operation: { id: 'openai-0' },
    });
    const reserve = inTurn(pausedFal);
    const end = await (await scripted.start({ reserve, submit }, twoRoutes())).end();
    expect(end.steps).toEqual(['reserve', 'submit', 'check', 'store', 'charge']);
    expect(end.provider).toBe('openai');
    expect(end.outcome?.status).toBe('completed');
  });
});

describeJobs('a provider that does not accept the call', () => {
  it('is skipped, and the job can be found under the name of the next provider', async () => {
    const submit = inTurn(failure('refused'), {
      kind: 'operation',
      operation: { id: 'openai-0' },
    } as const);
    const job = await scripted.start({ submit }, twoRoutes());
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', 'submit', 'submit', 'check', 'store', 'charge']);
    const [, call] = job.inputsOf('submit');
    expect(call).toMatchObject({ routeIndex: 1, route: { provider: 'openai' }, refusalsMax: 6 });
    expect(job.inputsOf('submit')[0]).toMatchObject({ routeIndex: 0, refusalsMax: 4 });
    expect(end).toMatchObject({ provider: 'openai', requests: ['openai-0'] });
    expect(end.progress.failures).toEqual([
      expect.stringContaining('submit of call 1 at fal: it is refused'),
    ]);
  });

  it('is called again through its queue until the limit of refusals is reached', async () => {
    const submit = inTurn(
      failure('not_accepted'),
      failure('not_accepted', { retryAfterMs: 10 }),
      lastRefusal as Error,
      operation,
    );
    const job = await scripted.start({ submit }, twoRoutes());
    const end = await job.end();
    expect(end.steps.slice(1, 5)).toEqual(['submit', 'submit on fal', 'submit on fal', 'submit']);
    expect(end.provider).toBe('openai');
  });

  it('is called again through its queue if it refuses after more than three seconds', async () => {
    const slowly = async (): Promise<SubmitOutcome> => {
      await sleep(3300);
      throw failure('not_accepted');
    };
    const submit = inTurn(slowly, lastRefusal as Error, operation);
    const end = await (await scripted.start({ submit }, twoRoutes())).end();
    expect(end.steps.slice(1, 5)).toEqual(['submit', 'adopt on studio', 'submit on fal', 'submit']);
    expect(end.provider).toBe('openai');
  });

  it('is called through its queue after its Retry-After', async () => {
    const submit = inTurn(failure('not_accepted', { retryAfterMs: 600 }), operation);
    const startedAt = performance.now();
    const end = await (await scripted.start({ submit })).end();
    expect(performance.now() - startedAt).toBeGreaterThan(600);
    expect(end.steps.slice(1, 3)).toEqual(['submit', 'submit on fal']);
  });

  it('without another route fails the job with the error of the provider', async () => {
    const submit = inTurn<unknown, SubmitOutcome>(failure('refused'));
    const job = await scripted.start({ submit }, twoRoutes());
    const end = await job.end();
    expect(end.failure).toEqual({
      type: 'PROVIDER_ERROR',
      message: 'released 1 credits: PROVIDER_ERROR, it is refused',
    });
    expect(end.provider).toBe('fal');
  });
});

describeJobs('a submit with an unknown outcome', () => {
  it('is adopted when the provider notifies, and never sent to another provider', async () => {
    const submit = inTurn<unknown, SubmitOutcome>(failure('unknown'));
    const job = await scripted.start({ submit, adopt: inTurn(operation) }, { ...twoRoutes() });
    await job.called('markVerifying');
    await job.notify();
    const end = await job.end();
    expect(end.steps).toEqual([
      'reserve',
      'submit',
      'markVerifying',
      'adopt on studio',
      'store',
      'charge',
    ]);
    expect(job.inputsOf('adopt')).toEqual(job.inputsOf('submit'));
    // The notification reports the end, so the result is read without a check.
    expect(job.inputsOf('store')).toEqual([expect.objectContaining({ notified: true })]);
    expect(end.requests).toEqual(['fal-0']);
  });

  it('is adopted at once if the notification arrived before', async () => {
    const door = gate();
    const submit = inTurn<unknown, SubmitOutcome>(fault('PROVIDER_BUSY'), async () => {
      await door.passed;
      throw failure('unknown');
    });
    const job = await scripted.start({ submit, adopt: inTurn(operation) });
    await job.called('submit', 2);
    await job.notify();
    door.open();
    const end = await job.end();
    expect(end.steps).toEqual([
      'reserve',
      'submit',
      'submit on fal',
      'adopt on studio',
      'store',
      'charge',
    ]);
  });

  it('fails as unknown, canceled or not, if no notification arrives in time', async () => {
    const submit = inTurn<unknown, SubmitOutcome>(failure('unknown'));
    const job = await scripted.start({ submit }, { ...twoRoutes(), outcomeWaitMs: 400 });
    await job.called('markVerifying');
    await job.handle.cancel();
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', 'submit', 'markVerifying', 'release']);
    expect(end.failure?.type).toBe('OUTCOME_UNKNOWN');
  });

  it('fails as unknown at once if the provider sends no notifications', async () => {
    const submit = inTurn<unknown, SubmitOutcome>(failure('unknown'));
    const routes = [scripted.route('fal', { notifies: false }), scripted.route('openai')];
    const end = await (
      await scripted.start({ submit }, { calls: [scripted.call({ routes })] })
    ).end();
    expect(end.steps).toEqual(['reserve', 'submit on fal', 'release']);
    expect(end.failure?.type).toBe('OUTCOME_UNKNOWN');
  });
});

describeJobs('a provider notification', () => {
  it('counts although it arrives before the response to the submit', async () => {
    const door = gate();
    const submit = inTurn<unknown, SubmitOutcome>(fault('PROVIDER_BUSY'), async () => {
      await door.passed;
      return operation;
    });
    const job = await scripted.start({ submit }, checkedRarely());
    await job.called('submit', 2);
    await job.notify('fal-0');
    door.open();
    const end = await job.end();
    expect(job.inputsOf('store')).toEqual([expect.objectContaining({ notified: true })]);
    expect(end.outcome?.status).toBe('completed');
  });

  it('with the id of another provider operation changes nothing, early or late', async () => {
    const door = gate();
    const submit = inTurn<unknown, SubmitOutcome>(fault('PROVIDER_BUSY'), async () => {
      await door.passed;
      return operation;
    });
    const job = await scripted.start({ submit }, checkedRarely());
    await job.called('submit', 2);
    await job.notify('early');
    door.open();
    await expect
      .poll(async () => (await progressOf(job)).calls[0]?.providerRequestId)
      .toBe('fal-0');
    await job.notify('late');
    await job.notify('fal-0', 1);
    await sleep(300);
    expect(job.inputsOf('store')).toEqual([]);
    expect((await progressOf(job)).calls[0]?.phase).toMatch(
      /^fal is working on it, next check at \d\d:\d\d:\d\d UTC$/,
    );
    await job.notify('fal-0');
    expect((await job.end()).outcome?.status).toBe('completed');
  });

  it('that arrives twice causes at most two fetches, and after the end it finds no workflow', async () => {
    const door = gate();
    const store = inTurn<unknown, CallOutputs>(async () => {
      await door.passed;
      throw failure('unfinished');
    }, delivered);
    const job = await scripted.start({ store }, checkedRarely());
    await job.called('submit');
    await job.notify();
    await job.called('store');
    await job.notify();
    await job.notify();
    // No notification is sent after this, because it could arrive during the last steps.
    door.open();
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', 'submit', 'store', 'store', 'charge']);
    await expect(job.notify()).rejects.toThrow(WorkflowNotFoundError);
  });
});

describeJobs('a check', () => {
  it('without a result never ends the job, however often it repeats', async () => {
    const away = failure('unreachable', { retryAfterMs: 10 });
    const attempts = Array.from({ length: 7 }, () => away);
    const check = inTurn<unknown, CheckOutcome>(...attempts, ended);
    const end = await (await scripted.start({ check })).end();
    expect(end.steps.filter((step) => step === 'check on fal')).toHaveLength(6);
    expect(end.steps.slice(-3)).toEqual(['check', 'store', 'charge']);
    expect(end.outcome?.status).toBe('completed');
  });

  it('comes sooner after a signal', async () => {
    const job = await scripted.start({}, checkedRarely());
    await expect
      .poll(async () => (await progressOf(job)).calls[0]?.providerRequestId)
      .toBe('fal-0');
    await job.handle.signal(checkNow);
    expect((await job.end()).outcome?.status).toBe('completed');
    expect(job.inputsOf('store')).toEqual([expect.objectContaining({ notified: false })]);
  });

  it.each([
    ['rejected', 'PROVIDER_REJECTED_INPUT'],
    ['content_policy', 'CONTENT_POLICY'],
    ['failed', 'PROVIDER_ERROR'],
    // Canceled at the provider, without a cancel of the job.
    ['canceled', 'PROVIDER_ERROR'],
  ] as const)('that finds the call %s fails the job as %s', async (kind, type) => {
    const check = inTurn<unknown, CheckOutcome>(pending, failure(kind));
    const end = await (await scripted.start({ check })).end();
    expect(end.steps).toEqual(['reserve', 'submit', 'check', 'check', 'release']);
    expect(end).toMatchObject({ failure: { type }, errorCode: type });
    expect(end.details).toContain(`- call 1: no output: ${type}, request \`fal-0\``);
  });

  it('fails the job if the outputs can never be stored', async () => {
    const lost = ApplicationFailure.nonRetryable('the storage did not take it', 'STORAGE_ERROR');
    const job = await scripted.start({ store: inTurn<unknown, CallOutputs>(lost) });
    expect((await job.end()).failure?.type).toBe('STORAGE_ERROR');
    expect(job.inputsOf('release')).toEqual([
      expect.objectContaining({
        error: { code: 'STORAGE_ERROR', message: 'the storage did not take it' },
      }),
    ]);
  });
});

describeJobs('a job', () => {
  it.each(['insufficient_credits', 'window_exhausted'] as const)(
    'that is refused (%s) makes no provider call',
    async (verdict) => {
      const { balance } = settledNow;
      const refusal =
        verdict === 'insufficient_credits'
          ? { verdict, required: 5, balance }
          : { verdict, required: 5, limit: 9, used: 7, resetAt: 'later', now: 'now', balance };
      const webhook = { taskQueue: 'no-worker' };
      const job = await scripted.start(
        { reserve: inTurn<unknown, ReserveOutcome>(refusal) },
        { webhook },
      );
      const end = await job.end();
      expect(end.steps).toEqual(['reserve']);
      expect(end.outcome).toMatchObject({
        status: 'refused',
        billing: 'none',
        reason: verdict,
      });
      expect(end.details).toContain(`**refused: ${verdict}**`);
    },
  );

  it('that was charged before is charged again without effect, and sends nothing', async () => {
    const charged = {
      ...settledNow,
      verdict: 'already_settled',
      state: 'charged',
      charged: 4,
    } as const;
    const job = await scripted.start({
      reserve: inTurn(reserved({ status: 'completed', errorCode: null })),
      charge: inTurn(charged),
    });
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', 'charge']);
    expect(job.inputsOf('charge')).toEqual([expect.objectContaining({ outputs: [] })]);
    expect(end.outcome).toMatchObject({ status: 'completed', chargedMicro: 4 });
  });

  it('that was released before sends nothing, moves no credits and ends as before', async () => {
    const before = { status: 'canceled', errorCode: 'CANCELED' } as const;
    const job = await scripted.start({ reserve: inTurn(reserved(before)) });
    const end = await job.end();
    expect(end.steps).toEqual(['reserve']);
    expect(end.outcome).toMatchObject({
      status: 'canceled',
      billing: 'released',
      reason: 'CANCELED',
      chargedMicro: 0,
    });
    expect(end).toMatchObject({ errorCode: 'CANCELED', billingState: 'released' });
  });

  it('that an earlier run has charged ends as completed, although this run has failed', async () => {
    const charged = { ...settledNow, verdict: 'already_settled', state: 'charged' } as const;
    const job = await scripted.start({
      check: inTurn<unknown, CheckOutcome>(failure('failed')),
      release: inTurn({ ...charged, charged: 4 }),
    });
    const end = await job.end();
    expect(end.steps.at(-1)).toBe('release');
    expect(end.outcome).toMatchObject({ status: 'completed', billing: 'charged', chargedMicro: 4 });
    expect(end.details).toContain('**charged');
  });

  it('that the sweeper released while it ran ends with JOB_LOST', async () => {
    const released = {
      ...settledNow,
      verdict: 'already_settled',
      state: 'released',
      charged: 0,
    } as const;
    const end = await (await scripted.start({ charge: inTurn(released) })).end();
    expect(end.outcome).toMatchObject({
      status: 'failed',
      billing: 'released',
      reason: 'JOB_LOST',
    });
    expect(end.details).toContain('**released 1 credits: JOB_LOST**');
  });

  it('without a reservation fails with “nothing was reserved”, and delivers no webhook', async () => {
    const webhook = { taskQueue: 'no-worker' };
    const job = await scripted.start(
      {
        reserve: inTurn<unknown, ReserveOutcome>(ApplicationFailure.nonRetryable('no account')),
        release: inTurn({ verdict: 'not_reserved' } as const),
      },
      { webhook },
    );
    const end = await job.end();
    expect(end.steps).toEqual(['reserve', 'release']);
    expect(end.failure).toEqual({
      type: 'Internal server error',
      message: 'nothing was reserved: Internal server error, The job failed on our side.',
    });
  });

  it('delivers its webhook after success and after failure, and Temporal retries the delivery', async () => {
    const webhook = { taskQueue: scripted.webhookQueue };
    const retried = inTurn<unknown, void>(
      ApplicationFailure.create({ type: 'WEBHOOK_NOT_DELIVERED', nextRetryDelay: 10 }),
      undefined,
    );
    const good = await scripted.start({ attemptDelivery: retried }, { webhook });
    const bad = await scripted.start(
      { store: inTurn<unknown, CallOutputs>(failure('failed')) },
      { webhook },
    );
    await Promise.all([good.called('attemptDelivery', 2), bad.called('attemptDelivery')]);
    expect((await good.end()).outcome?.status).toBe('completed');
    expect((await bad.end()).failure?.type).toBe('PROVIDER_ERROR');
    const { jobId, organizationId } = good.plan;
    const name = { subjectId: jobId, organizationId };
    expect(good.inputsOf('attemptDelivery')).toEqual([name, name]);
  });

  it('without a plan version fails at once', async () => {
    const job = await scripted.start({}, { planVersion: undefined } as object);
    await expect(job.handle.result()).rejects.toMatchObject({ cause: { type: 'UNKNOWN_PLAN' } });
    expect(job.calls).toEqual([]);
  });

  it('with an unknown plan version waits for a worker that supports it', async () => {
    const job = await scripted.start({}, { planVersion: 2 });
    await expect
      .poll(async () => {
        const { events = [] } = await job.handle.fetchHistory();
        return events?.find((event) => event.workflowTaskFailedEventAttributes)
          ?.workflowTaskFailedEventAttributes?.failure?.message;
      })
      .toBe('the plan has version 2; this worker only runs version 1');
    expect((await job.handle.describe()).status.name).toBe('RUNNING');
    expect(job.calls).toEqual([]);
    await job.handle.terminate();
  });
});

describeJobs('a job with several calls', () => {
  const calls = (changes: Partial<PlannedCall>[]): { calls: PlannedCall[] } => ({
    calls: changes.map((change, index) => scripted.call({ index, ...change })),
  });
  const failing = (...indexes: number[]) =>
    inTurn<{ callIndex: number }, CallOutputs>(async ({ callIndex }) => {
      if (indexes.includes(callIndex)) throw failure('content_policy');
      return outputsOf(callIndex);
    });

  it('sends them through the queue, and charges the delivered outputs', async () => {
    const job = await scripted.start({ store: failing(1) }, calls([{}, {}, {}]));
    const end = await job.end();
    expect(end.outcome).toMatchObject({ status: 'completed', chargedMicro: 2_000_000 });
    const error = { code: 'CONTENT_POLICY', message: 'it is content_policy' };
    expect(job.inputsOf('charge')[0]?.outputs).toEqual([
      outputsOf(0),
      { callIndex: 1, artifacts: [], data: null, delivered: 0, error },
      outputsOf(2),
    ]);
    expect(end.steps.toSorted()).toEqual(
      [
        'charge',
        'reserve',
        ...['check', 'store', 'submit'].flatMap((verb) => Array(3).fill(`${verb} on fal`)),
      ].toSorted(),
    );
    expect(end.requests?.toSorted()).toEqual(['fal-0', 'fal-1', 'fal-2']);
    expect(end.progress.calls.map(({ phase }) => phase)).toEqual([
      'delivered',
      'no output: CONTENT_POLICY',
      'delivered',
    ]);
  });

  it('releases its reservation with the error of the first call if all calls fail', async () => {
    const store = inTurn<{ callIndex: number }, CallOutputs>(async ({ callIndex }) => {
      throw failure(callIndex === 0 ? 'content_policy' : 'failed');
    });
    const end = await (await scripted.start({ store }, calls([{}, {}]))).end();
    expect(end.failure?.type).toBe('CONTENT_POLICY');
    expect(end.steps.at(-1)).toBe('release');
  });

  it('releases its reservation if a required call fails, even if others delivered', async () => {
    const job = await scripted.start({ store: failing(1) }, calls([{}, { required: true }]));
    expect((await job.end()).failure?.type).toBe('CONTENT_POLICY');
    expect(job.inputsOf('charge')).toEqual([]);
  });

  it('passes the output of the first step to the second', async () => {
    const steps = calls([{}, { inputFrom: { callIndex: 0, field: 'image_url' } }]);
    const job = await scripted.start({}, steps);
    expect((await job.end()).outcome).toMatchObject({ chargedMicro: 2_000_000 });
    expect(job.inputsOf('submit').map(({ source }) => source)).toEqual([
      null,
      { field: 'image_url', storageKey: artifactOf(0).storageKey },
    ]);
  });

  it('skips the second step if the first fails', async () => {
    const steps = calls([{}, { inputFrom: { callIndex: 0, field: 'image_url' } }]);
    const job = await scripted.start({ store: failing(0) }, steps);
    const end = await job.end();
    expect(end.failure?.type).toBe('CONTENT_POLICY');
    expect(job.inputsOf('submit')).toHaveLength(1);
  });

  it('assembles the outputs in the order of the calls', async () => {
    const job = await scripted.start({}, { ...calls([{}, {}]), assembly: 'concat_audio' });
    const end = await job.end();
    expect(job.inputsOf('assemble')).toEqual([
      expect.objectContaining({
        kind: 'concat_audio',
        callIndex: 2,
        parts: [artifactOf(0), artifactOf(1)],
      }),
    ]);
    expect(job.inputsOf('charge')[0]?.outputs).toEqual([0, 1, 2].map(outputsOf));
    expect(end.steps.slice(-2)).toEqual(['assemble', 'charge']);
  });

  // Results of parallel calls arrive in any order and grouping; a replay may have another one.
  it.each(Array.from({ length: isWhole ? 8 : 3 }, (_, seed) => seed))(
    'runs calls in parallel although some change provider, wait or fail (%i)',
    async (seed) => {
      const routes = [scripted.route('fal'), scripted.route('openai')];
      const changes = Array.from({ length: 4 + (seed % 3) }, (_, index) => ({
        routes,
        firstCheckMs: 1 + ((seed * 7 + index * 13) % 40),
      }));
      const asked = new Map<string, number>();
      /** Returns 0 to 6, by the key and the number of calls with it; the same in every run. */
      const chance = (key: string): number => {
        const times = (asked.get(key) ?? 0) + 1;
        asked.set(key, times);
        return (createHash('sha256').update(`${seed} ${key} ${times}`).digest()[0] ?? 0) % 7;
      };
      const job = await scripted.start(
        {
          async submit({ callIndex, route }) {
            const luck = chance(`submit${callIndex}${route.provider}`);
            await sleep(luck * 3);
            if (route.provider === 'fal' && luck < 2) throw failure('refused');
            if (luck === 2) throw failure('not_accepted', { retryAfterMs: 5 });
            return { kind: 'operation', operation: { id: `${route.provider}-${callIndex}` } };
          },
          async check({ callIndex }) {
            const luck = chance(`check${callIndex}`);
            await sleep(luck * 2);
            if (luck === 1) throw failure('failed');
            return luck < 4 ? pending : ended;
          },
        },
        calls(changes),
      );
      for (const index of [0, 2]) await job.notify(`fal-${index}`, index).catch(() => {});
      const end = await job.end();
      expect(end.outcome?.status ?? end.failure?.type).toMatch(/completed|PROVIDER_ERROR/);
    },
  );
});

describe('every history that these tests recorded', () => {
  it('replays', async () => {
    const histories = [];
    for (const { handle } of scripted.jobs) {
      const { status } = await handle.describe();
      if (status.name === 'TERMINATED') continue;
      histories.push({ workflowId: handle.workflowId, history: await handle.fetchHistory() });
    }
    expect(histories.length).toBeGreaterThan(60);
    const workflowBundle = await loadWorkflowBundle();
    const failures: string[] = [];
    for await (const { workflowId, error } of Worker.runReplayHistories(
      { workflowBundle },
      histories,
    )) {
      if (error) failures.push(`${workflowId}: ${error.message}`);
    }
    expect(failures).toEqual([]);
  });
});
