/**
 * Every branch of a Studio job (workflows/studio-job.ts, provider-call.ts, steps.ts), with scripted
 * activities: their inputs, where they run, the end of the job; and each recorded history replays.
 */
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { WorkflowNotFoundError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { Worker } from '@temporalio/worker';
import { describe, expect, it } from 'vitest';
import type { CheckOutcome } from '../../activities/check.ts';
import type { SubmitOutcome } from '../../activities/submit.ts';
import type { ReserveOutcome, EarlierSettlement } from '../../activities/reserve.ts';
import { toApplicationFailure } from '../../activities/activity-failures.ts';
import { ProviderFailure, type FailureKind } from '../../domain/provider-failure.ts';
import { checkNow, progressQuery } from '../../domain/job-contract.ts';
import type { CallOutputs, JobPlan, PlannedCall } from '../../domain/job-plan.ts';
import { loadWorkflowBundle } from '../../worker/bundle.ts';
import { during } from '../harness/during.ts';
import {
  makeArtifact,
  respond,
  makeOutputs,
  startScriptedJobs,
  type Script,
  type ScriptedJob,
} from '../harness/scripted-jobs.ts';
import { isWhole } from '../harness/whole.ts';

const scripted = during(startScriptedJobs);

/** Returns the error of an activity whose provider has failed in this way. */
function failure(kind: FailureKind, extras: { retryAfterMs?: number } = {}): Error {
  const error = new ProviderFailure(kind, `it is ${kind}`, extras);
  return toApplicationFailure(error, { attempt: 1, submitAttemptsMax: 2 }) as Error;
}
/** Failure of the last attempt that a provider may reject. */
const lastRejection = toApplicationFailure(new ProviderFailure('not_accepted', 'it is busy'), {
  attempt: 2,
  submitAttemptsMax: 2,
}) as Error;
/** Failure inside the gateway, after which Temporal retries at once. */
const fault = (type = 'DatabaseAway'): Error =>
  ApplicationFailure.create({ message: 'our fault', type, nextRetryDelay: 10 });

const reserves = respond<unknown, ReserveOutcome>;
const submits = respond<unknown, SubmitOutcome>;
const checks = respond<unknown, CheckOutcome>;
const stores = respond<unknown, CallOutputs>;

const progress = { state: 'generating', queuePosition: null } as const;
const pending: CheckOutcome = { kind: 'pending', progress };
const ended: CheckOutcome = { kind: 'ended' };
const delivered = makeOutputs(0);
/** Adds the line with which one delivered output is charged. */
const withLine = (outputs: CallOutputs): CallOutputs => ({
  ...outputs,
  line: {
    unit: 'image',
    quantity: 1,
    unitPriceMicro: 1_000_000,
    discountMicro: 0,
    unitCostMicro: 1_000_000,
    costDiscountMicro: 0,
  },
});
const operation = { kind: 'operation', operation: { id: 'fal-0' } } as const;
const atOpenai = { kind: 'operation', operation: { id: 'openai-0' } } as const;
const balance = { posted: 0, reserved: 0, available: 0 };
const settledNow = { verdict: 'settled', balance } as const;
const settledBefore = { ...settledNow, verdict: 'already_settled' } as const;
const reserved = (earlier: EarlierSettlement | null = null) => ({
  verdict: 'reserved' as const,
  repeated: earlier !== null,
  state: earlier ? 'released' : 'reserved',
  createdAt: new Date().toISOString(),
  balance,
  paused: [],
  settledBefore: earlier,
});
const pausedFal = { ...reserved(), paused: ['fal'] };
/** Failure of `awaitResume` while the provider is paused. */
const paused = ApplicationFailure.create({ message: 'paused: fal', type: 'PROVIDER_PAUSED' });
const stillPaused = respond<unknown, void>(paused);

/** A gate at which an activity waits until the test opens it. */
function gate() {
  const { promise, resolve } = Promise.withResolvers<void>();
  return {
    open: () => resolve(),
    /** Returns an activity that waits for the gate, and then returns the outcome or throws it. */
    after:
      <Outcome>(outcome: Outcome) =>
      async (): Promise<Exclude<Outcome, Error>> => {
        await promise;
        if (outcome instanceof Error) throw outcome;
        return outcome as Exclude<Outcome, Error>;
      },
  };
}

/** Plans a call whose first timer fires so late that only a notification or a signal causes a check. */
const planRareChecks = (changes: Partial<PlannedCall> = {}): { calls: PlannedCall[] } => ({
  calls: [scripted.call({ firstCheckMs: 50_000, ...changes })],
});
const planTwoRoutes = (): { calls: PlannedCall[] } => ({
  calls: [scripted.call({ routes: [scripted.route('fal'), scripted.route('openai')] })],
});
/** Plans a call whose provider sends no notifications. */
const planSilently = (taskQueue?: string): { calls: PlannedCall[] } => {
  const fal = scripted.route('fal', { notifies: false, ...(taskQueue && { taskQueue }) });
  return { calls: [scripted.call({ routes: [fal, scripted.route('openai')] })] };
};
const readProgress = ({ handle }: ScriptedJob) => handle.query(progressQuery);
/** Waits until the call of a job was accepted. */
const untilAccepted = (job: ScriptedJob) =>
  expect.poll(async () => (await readProgress(job)).calls[0]?.providerRequestId).toBe('fal-0');
/** Starts a job whose submit waits in the queue until the gate opens. */
async function startWithGate(outcome: SubmitOutcome | Error, more: object = {}) {
  const { open, after } = gate();
  const submit = submits(fault('PROVIDER_BUSY'), after(outcome));
  const job = await scripted.start({ submit, ...more }, planRareChecks());
  await job.untilCalled('submit', 2);
  return { job, open };
}
const describeJobs = describe.concurrent;

/** A script, changes of the plan, and the fields of the end. */
type Case = () => [script: Script, changes: Partial<JobPlan>, end: object];
/** Runs a job for each case, and compares its end. */
const runEach = (cases: Record<string, Case>) =>
  it.each(Object.entries(cases))('%s', async (_title, getCase) => {
    const [script, changes, end] = getCase();
    expect(await scripted.run(script, changes)).toMatchObject(end);
  });
/** Returns the end of a job that fails with this error after these steps. */
const failedEnd = (type: string, steps: string | RegExp) => ({
  failure: { type },
  errorCode: type,
  steps: typeof steps === 'string' ? steps : expect.stringMatching(steps),
});
/** Returns the end of a job whose second provider delivers. */
const openaiEnd = (steps: string | RegExp) => ({
  provider: 'openai',
  outcome: { status: 'completed' },
  steps: typeof steps === 'string' ? steps : expect.stringMatching(steps),
});

describeJobs('a step', () => {
  it('runs as a local activity with the input that the plan contains', async () => {
    const job = await scripted.start({}, { calls: [scripted.call({ quantity: 3 })] });
    const end = await job.end();
    const { jobId, organizationId } = job.plan;
    const [call] = job.plan.calls;
    const order = { output: call?.output, meter: 'artifact', quantity: 3, source: null };
    const where = { callIndex: 0, routeIndex: 0, route: call?.routes[0], submitAttemptsMax: 6 };
    const task = { jobId, organizationId, model: job.plan.model, ...where, ...order };
    expect(end.steps).toBe('reserve, submit, check, store, charge');
    expect(job.readInputs('reserve')).toEqual([job.plan]);
    expect(job.readInputs('submit')).toEqual([task]);
    expect(job.readInputs('check')).toEqual([{ ...task, operation: { id: 'fal-0' } }]);
    const storing = { ...task, operation: { id: 'fal-0' }, notified: false };
    expect(job.readInputs('store')).toEqual([storing]);
    // One of the three requested images was delivered.
    expect(job.readInputs('charge')).toEqual([
      {
        jobId,
        organizationId,
        chargeMicro: 1_000_000,
        costMicro: 1_000_000,
        outputs: [withLine(delivered)],
      },
    ]);
    const charged = { billing: 'charged', chargedMicro: 1_000_000, reason: null };
    expect(end).toMatchObject({
      outcome: { jobId, status: 'completed', ...charged },
      details: expect.stringContaining('**charged 1 credits**'),
      provider: 'fal',
      requests: ['fal-0'],
      errorCode: undefined,
    });
    expect(await end.progress()).toEqual({
      phase: 'charged 1 credits',
      calls: [{ call: 1, phase: 'delivered', providerRequestId: 'fal-0' }],
      failures: [],
    });
  });

  it('is adopted by an activity, not sent again, if its submit takes more than three seconds', async () => {
    const job = await scripted.start(
      {
        submit: submits(() => sleep(4500, operation)),
        adopt: respond(() => sleep(500, operation)),
      },
      { model: 'impatient' },
    );
    await job.untilCalled('adopt');
    expect(await readProgress(job)).toMatchObject({
      calls: [{ phase: expect.stringMatching(/submitting to fal|fal is working on it/) }],
    });
    const end = await job.end();
    expect(end.steps).toBe('reserve, submit, adopt on studio, check, store, charge');
    expect(job.readInputs('adopt')).toEqual(job.readInputs('submit'));
    expect((await end.progress()).failures).toEqual([expect.stringContaining('submit of call 1')]);
  });

  it('goes to the task queue if the provider has no free slot, and this is not recorded as a failure', async () => {
    const end = await scripted.run({ submit: submits(fault('PROVIDER_BUSY'), operation) });
    expect(end.steps).toBe('reserve, submit, submit on fal, check, store, charge');
    expect((await end.progress()).failures).toEqual([]);
  });

  it('is retried until it works if it fails inside the gateway', async () => {
    const end = await scripted.run({
      reserve: reserves(fault(), fault(), reserved()),
      charge: respond(fault(), fault(), { ...settledNow, state: 'charged', charged: 7 }),
    });
    expect(end.steps).toBe(
      'reserve, reserve on studio, reserve on studio, submit, check, store, charge, charge on studio, charge on studio',
    );
    expect(end.outcome).toMatchObject({ status: 'completed', chargedMicro: 7 });
  });

  it('is not retried after a final rejection', async () => {
    const end = await scripted.run({ submit: submits(failure('content_policy')) });
    expect(end).toMatchObject(failedEnd('CONTENT_POLICY', 'reserve, submit, release'));
    expect(end.details).toContain('**released 1 credits: CONTENT_POLICY, it is content_policy**');
    expect(end.details).toContain('- call 1: no output: CONTENT_POLICY');
  });

  it('stores a video in a queued activity, and runs a submit that returns its outputs in one', async () => {
    const output = { medium: 'video', format: null } as const;
    const film = await scripted.run({}, { calls: [scripted.call({ output })] });
    expect(film.steps).toBe('reserve, submit, check, store on fal, charge');
    const routes = [scripted.route('openai', { notifies: false })];
    const submit = submits({
      kind: 'outputs',
      outputs: delivered,
      providerRequestId: 'req_7',
    });
    const inline = await scripted.run({ submit }, { calls: [scripted.call({ routes })] });
    expect(inline.steps).toBe('reserve, submit on openai, charge');
    expect(inline.requests).toEqual(['req_7']);
  });
});

describeJobs('a cancellation', () => {
  const canceled = {
    failure: { type: 'CANCELED' },
    errorCode: 'CANCELED',
    billingState: 'released',
    details: expect.stringMatching(/^\*\*released 1 credits: CANCELED, /),
  };

  /** Cancels a job once an activity was called this often, opens its gate, and returns its end. */
  async function cancelAt(
    job: ScriptedJob,
    [name, times = 1]: [name: Parameters<ScriptedJob['untilCalled']>[0], times?: number],
    open = (): void => {},
  ) {
    await job.untilCalled(name, times);
    await job.handle.cancel();
    open();
    return job.end();
  }

  it('before any provider call releases the reservation and sends nothing', async () => {
    const { open, after } = gate();
    const job = await scripted.start({ reserve: reserves(fault(), after(reserved())) });
    const steps = 'reserve, reserve on studio, release';
    expect(await cancelAt(job, ['reserve', 2], open)).toMatchObject({ steps, ...canceled });
    const message = 'the job was canceled before a provider accepted the call';
    const error = { code: 'CANCELED', message };
    expect(job.readInputs('release')).toMatchObject([{ status: 'canceled', error }]);
  });

  it('ends the wait that the provider requested', async () => {
    const submit = submits(failure('not_accepted', { retryAfterMs: 50_000 }), operation);
    const job = await scripted.start({ submit }, planTwoRoutes());
    const steps = 'reserve, submit, release';
    expect(await cancelAt(job, ['submit'])).toMatchObject({ steps, ...canceled });
  });

  it('during repeated rejections ends the job as canceled, not as failed', async () => {
    const { open, after } = gate();
    const submit = submits(failure('not_accepted'), after(lastRejection));
    const job = await scripted.start({ submit });
    const steps = 'reserve, submit, submit on fal, release';
    expect(await cancelAt(job, ['submit', 2], open)).toMatchObject({ steps, ...canceled });
  });

  it('between two attempts of a submit ends the job, and the call is not sent again', async () => {
    const busy = failure('not_accepted', { retryAfterMs: 40_000 });
    const job = await scripted.start({
      submit: submits(failure('not_accepted'), busy, operation),
    });
    await job.untilCalled('submit', 2);
    await sleep(300);
    await job.handle.cancel();
    const steps = 'reserve, submit, submit on fal, adopt on studio, release';
    expect(await job.end()).toMatchObject({ steps, ...canceled });
  });

  it('during a queued submit waits for its response, then asks the provider to stop', async () => {
    const check = checks(pending, failure('canceled'));
    const { job, open } = await startWithGate(operation, { check });
    await job.handle.cancel();
    await sleep(300);
    open();
    const steps = 'reserve, submit, submit on fal, check, cancel, check, release';
    expect(await job.end()).toMatchObject({ steps, ...canceled });
  });

  it('during a submit waits for its response, then asks the provider to stop', async () => {
    const { open, after } = gate();
    const check = checks(pending, failure('canceled'));
    const job = await scripted.start(
      { submit: submits(after(operation)), check },
      planRareChecks(),
    );
    const steps = 'reserve, submit, check, cancel, check, release';
    expect(await cancelAt(job, ['submit'], open)).toMatchObject({ steps, ...canceled });
    expect(job.readInputs('cancel')).toMatchObject([{ callIndex: 0, operation: { id: 'fal-0' } }]);
  });

  it('that reaches the provider too late charges the job', async () => {
    const job = await scripted.start({ check: checks(pending, pending, ended) });
    const end = await cancelAt(job, ['check']);
    expect(end.steps.split('cancel')).toHaveLength(2);
    expect(end.outcome).toMatchObject({ status: 'completed', billing: 'charged' });
  });

  it('that does not reach the provider changes nothing', async () => {
    const cancel = respond<unknown, 'requested'>(ApplicationFailure.nonRetryable('no such path'));
    const job = await scripted.start({ check: checks(pending, ended), cancel }, planRareChecks());
    const end = await cancelAt(job, ['submit']);
    expect(end.steps).toBe('reserve, submit, check, cancel, check, store, charge');
    expect((await end.progress()).failures).toEqual([
      expect.stringContaining('cancel of call 1 at fal: no such path'),
    ]);
    expect(end.outcome).toMatchObject({ status: 'completed' });
  });

  it.each(['store', 'assemble', 'charge', 'release'] as const)(
    'during %s comes too late to change the result',
    async (verb) => {
      const { open, after } = gate();
      /** Fails the first attempt, so that the cancel arrives during an ordinary activity. */
      const slowly = <Outcome>(outcome: Outcome) =>
        respond<unknown, Outcome>(fault(), after(outcome));
      const scripts = {
        store: { store: slowly(delivered) },
        assemble: { assemble: slowly(makeOutputs(1)) },
        charge: { charge: slowly({ ...settledNow, state: 'charged' as const, charged: 1 }) },
        release: {
          check: checks(failure('failed')),
          release: slowly({ ...settledNow, state: 'released' as const, charged: 0 }),
        },
      };
      const job = await scripted.start(scripts[verb], { assembly: 'concat_audio' });
      const end = await cancelAt(job, [verb, 2], open);
      expect(end.steps).not.toContain('cancel');
      if (verb === 'release') expect(end.failure?.type).toBe('PROVIDER_ERROR');
      else expect(end.outcome).toMatchObject({ status: 'completed', billing: 'charged' });
    },
  );

  it('while the provider is paused releases the reservation and submits nothing', async () => {
    const job = await scripted.start({
      reserve: respond(pausedFal),
      awaitResume: stillPaused,
    });
    const steps = 'reserve, awaitResume on studio, release';
    expect(await cancelAt(job, ['awaitResume'])).toMatchObject({ steps, ...canceled });
  });

  it('with several calls is sent to the provider of each running call', async () => {
    const check = respond<{ callIndex: number }, CheckOutcome>(async ({ callIndex }) => {
      const isCanceled = job.readInputs('cancel').some((task) => task.callIndex === callIndex);
      if (isCanceled) throw failure('canceled');
      return pending;
    });
    const calls = [0, 1, 2].map((index) => scripted.call({ index, firstCheckMs: 50_000 }));
    const job = await scripted.start({ check }, { calls });
    const end = await cancelAt(job, ['submit', 3]);
    const canceledCalls = job.readInputs('cancel').map(({ callIndex }) => callIndex);
    expect(canceledCalls.toSorted()).toEqual([0, 1, 2]);
    expect(end.failure?.type).toBe('CANCELED');
  });
});

describeJobs('after the deadline', () => {
  /** A deadline that the first steps reach on a busy machine, too. */
  const deadlineMs = 4000;
  const soon = { deadlineMs, outcomeWaitMs: 700 };
  const muchLater = failure('not_accepted', { retryAfterMs: 3_600_000 });

  it('the provider receives a cancel, and the outcome is unknown if it does not confirm an end', async () => {
    const job = await scripted.start({ check: checks(pending) }, { ...planRareChecks(), ...soon });
    const steps = 'reserve, submit, check, cancel, markVerifying, check, release';
    expect(await job.end()).toMatchObject(failedEnd('OUTCOME_UNKNOWN', steps));
    expect(job.readInputs('markVerifying')).toEqual([job.plan.jobId]);
    const message = 'the provider reported no outcome after the deadline';
    const error = { code: 'OUTCOME_UNKNOWN', message };
    expect(job.readInputs('release')).toMatchObject([{ status: 'failed', error }]);
  });

  runEach({
    'no call is sent, although its provider accepts calls again': () => {
      const busy = failure('not_accepted', { retryAfterMs: 30_000 });
      const submit = submits(failure('not_accepted'), busy, operation);
      const steps = 'reserve, submit, submit on fal, release';
      return [{ submit }, { deadlineMs: 10_000 }, failedEnd('PROVIDER_ERROR', steps)];
    },
    'no further route is used': () => {
      const submit = submits(() =>
        sleep(5000).then(() => Promise.reject(failure('misconfigured'))),
      );
      const end = failedEnd('DEADLINE_EXCEEDED', 'reserve, submit, release');
      return [{ submit }, { ...planTwoRoutes(), deadlineMs }, end];
    },
    'a call that still waits for a worker of its provider is not sent': () => {
      const end = failedEnd('DEADLINE_EXCEEDED', 'reserve, adopt on studio, release');
      return [{}, { ...planSilently('no-worker'), deadlineMs }, end];
    },
    'a call that the provider canceled fails with DEADLINE_EXCEEDED': () => {
      const check = checks(pending, failure('canceled'));
      const end = failedEnd('DEADLINE_EXCEEDED', /release$/);
      return [{ check }, { ...planRareChecks(), ...soon }, end];
    },
    'a job that waits for a paused provider fails': () => {
      const script = { reserve: respond(pausedFal), awaitResume: stillPaused };
      return [
        script,
        soon,
        failedEnd('DEADLINE_EXCEEDED', 'reserve, awaitResume on studio, release'),
      ];
    },
    'a check that was running when the deadline passed counts, at run time and in replay': () => {
      const check = checks(() => sleep(5000, pending), ended);
      const calls = [scripted.call({ firstCheckMs: 100 })];
      const steps = 'reserve, submit, check, cancel, markVerifying, check, store, charge';
      return [{ check }, { calls, deadlineMs }, { steps }];
    },
    'the job skips a provider whose Retry-After ends later, and calls the next provider': () => [
      { submit: submits(muchLater, atOpenai) },
      planTwoRoutes(),
      openaiEnd('reserve, submit, submit, check, store, charge'),
    ],
    'the job fails if there is no next provider': () => [
      { submit: submits(muchLater) },
      {},
      failedEnd('PROVIDER_ERROR', /release$/),
    ],
  });

  it('a late result is kept, although the storage rejects it once: delivered outputs are charged', async () => {
    const changes = { ...planRareChecks(), ...soon, outcomeWaitMs: 50_000 };
    const slowly = () => sleep(1500, makeOutputs(0));
    const store = respond<unknown, CallOutputs>(fault('STORAGE_ERROR'), slowly);
    const job = await scripted.start({ check: checks(pending), store }, changes);
    await job.untilCalled('markVerifying');
    await job.notify();
    const end = await job.end();
    expect(end.steps).toMatch(/markVerifying, store, store on fal, charge$/);
    expect(end.outcome).toMatchObject({ status: 'completed' });
  });
});

describeJobs('a paused provider', () => {
  it('keeps its jobs waiting in one activity, which a signal repeats at once', async () => {
    const awaitResume = respond<unknown, void>(paused, paused, undefined);
    const job = await scripted.start({ reserve: respond(pausedFal), awaitResume });
    for (const times of [1, 2]) {
      await job.untilCalled('awaitResume', times);
      await sleep(300);
      expect(await readProgress(job)).toMatchObject({
        phase: '1 call(s), 1 credits reserved',
        calls: [{ call: 1, phase: 'waiting: the provider is paused', providerRequestId: null }],
      });
      await job.handle.signal(checkNow);
    }
    const waits = Array(3).fill('awaitResume on studio').join(', ');
    expect((await job.end()).steps).toBe(`reserve, ${waits}, submit, check, store, charge`);
  });

  runEach({
    'is detected by the submit if the pause comes after the reservation': () => {
      const steps = 'reserve, submit, awaitResume on studio, submit, check, store, charge';
      return [{ submit: submits({ kind: 'paused' }, operation) }, {}, { steps }];
    },
    'that is resumed before the others gets the call': () => [
      {
        reserve: respond({ ...pausedFal, paused: ['fal', 'openai'] }),
        submit: submits({ kind: 'paused' }, atOpenai),
      },
      planTwoRoutes(),
      openaiEnd('reserve, awaitResume on studio, submit, submit, check, store, charge'),
    ],
    'is skipped if the call has another route': () => [
      { reserve: respond(pausedFal), submit: submits(atOpenai) },
      planTwoRoutes(),
      openaiEnd('reserve, submit, check, store, charge'),
    ],
  });
});

describeJobs('a provider that does not accept the call', () => {
  it('is skipped, and the job can be found under the name of the next provider', async () => {
    const submit = submits(failure('misconfigured'), atOpenai);
    const job = await scripted.start({ submit }, planTwoRoutes());
    const end = await job.end();
    expect(end).toMatchObject(openaiEnd('reserve, submit, submit, check, store, charge'));
    expect(end.requests).toEqual(['openai-0']);
    expect((await end.progress()).failures).toEqual([
      expect.stringContaining('submit of call 1 at fal: it is misconfigured'),
    ]);
    expect(job.readInputs('submit')).toMatchObject([
      { routeIndex: 0, route: { provider: 'fal' }, submitAttemptsMax: 4 },
      { routeIndex: 1, route: { provider: 'openai' }, submitAttemptsMax: 6 },
    ]);
  });

  runEach({
    'is called again through its queue until the limit of rejections is reached': () => {
      const later = failure('not_accepted', { retryAfterMs: 10 });
      const submit = submits(failure('not_accepted'), later, lastRejection, operation);
      const steps = /^reserve, submit, submit on fal, submit on fal, submit, check/;
      return [{ submit }, planTwoRoutes(), openaiEnd(steps)];
    },
    'is called again through its queue if it rejects after more than three seconds': () => {
      const slowly = () => sleep(3300).then(() => Promise.reject(failure('not_accepted')));
      const submit = submits(slowly, lastRejection, operation);
      const steps = /^reserve, submit, adopt on studio, submit on fal, submit, check/;
      return [{ submit }, { ...planTwoRoutes(), model: 'impatient' }, openaiEnd(steps)];
    },
  });

  it('is called through its queue after its Retry-After', async () => {
    const submit = submits(failure('not_accepted', { retryAfterMs: 600 }), operation);
    const startedAt = performance.now();
    const end = await scripted.run({ submit });
    expect(performance.now() - startedAt).toBeGreaterThan(600);
    expect(end.steps).toMatch(/^reserve, submit, submit on fal, check/);
  });

  it('without another route fails the job with the error of the provider', async () => {
    const end = await scripted.run({ submit: submits(failure('misconfigured')) }, planTwoRoutes());
    expect(end.failure).toEqual({
      type: 'PROVIDER_ERROR',
      message: 'released 1 credits: PROVIDER_ERROR, it is misconfigured',
    });
    expect(end.provider).toBe('fal');
  });
});

describeJobs('a submit with an unknown outcome', () => {
  const submit = submits(failure('unknown'));

  it('is adopted when the provider notifies, and never sent to another provider', async () => {
    const job = await scripted.start({ submit, adopt: respond(operation) }, planTwoRoutes());
    await job.untilCalled('markVerifying');
    await job.notify();
    const end = await job.end();
    expect(end.steps).toBe('reserve, submit, markVerifying, adopt on studio, store, charge');
    expect(job.readInputs('adopt')).toEqual(job.readInputs('submit'));
    // The notification reports the end, so the result is read without a check.
    expect(job.readInputs('store')).toMatchObject([{ notified: true }]);
    expect(end.requests).toEqual(['fal-0']);
  });

  it('is adopted at once if the notification arrived before', async () => {
    const { job, open } = await startWithGate(failure('unknown'), {
      adopt: respond(operation),
    });
    await job.notify();
    open();
    expect((await job.end()).steps).toBe(
      'reserve, submit, submit on fal, adopt on studio, store, charge',
    );
  });

  it('fails as unknown, canceled or not, if no notification arrives in time', async () => {
    const job = await scripted.start({ submit }, { ...planTwoRoutes(), outcomeWaitMs: 400 });
    await job.untilCalled('markVerifying');
    await job.handle.cancel();
    const steps = 'reserve, submit, markVerifying, release';
    expect(await job.end()).toMatchObject(failedEnd('OUTCOME_UNKNOWN', steps));
  });

  it('fails as unknown at once if the provider sends no notifications', async () => {
    const end = failedEnd('OUTCOME_UNKNOWN', 'reserve, submit on fal, release');
    expect(await scripted.run({ submit }, planSilently())).toMatchObject(end);
  });
});

describeJobs('a provider notification', () => {
  it('counts although it arrives before the response to the submit', async () => {
    const { job, open } = await startWithGate(operation);
    await job.notify('fal-0');
    open();
    expect((await job.end()).outcome?.status).toBe('completed');
    expect(job.readInputs('store')).toMatchObject([{ notified: true }]);
  });

  it('with the id of another provider operation changes nothing, early or late', async () => {
    const { job, open } = await startWithGate(operation);
    await job.notify('early');
    open();
    await untilAccepted(job);
    await job.notify('late');
    await job.notify('fal-0', 1);
    await sleep(300);
    expect(job.readInputs('store')).toEqual([]);
    expect((await readProgress(job)).calls[0]?.phase).toMatch(
      /^fal is working on it, next check at \d\d:\d\d:\d\d UTC$/,
    );
    await job.notify('fal-0');
    expect((await job.end()).outcome?.status).toBe('completed');
  });

  it('that arrives twice causes at most two fetches, and after the end it finds no workflow', async () => {
    const { open, after } = gate();
    const store = stores(after(failure('unfinished')), delivered);
    const job = await scripted.start({ store }, planRareChecks());
    await job.untilCalled('submit');
    await job.notify();
    await job.untilCalled('store');
    await job.notify();
    await job.notify();
    // No notification is sent after this, because it could arrive during the last steps.
    open();
    expect((await job.end()).steps).toBe('reserve, submit, store, store, charge');
    await expect(job.notify()).rejects.toThrow(WorkflowNotFoundError);
  });
});

describeJobs('a check', () => {
  it('without a result never ends the job, however often it repeats', async () => {
    const away = failure('unreachable', { retryAfterMs: 10 });
    const end = await scripted.run({ check: checks(...Array<Error>(7).fill(away), ended) });
    expect(end.steps.split('check on fal')).toHaveLength(7);
    expect(end.steps).toMatch(/check, store, charge$/);
    expect(end.outcome?.status).toBe('completed');
  });

  it('comes sooner after a signal', async () => {
    const job = await scripted.start({}, planRareChecks());
    await untilAccepted(job);
    await job.handle.signal(checkNow);
    expect((await job.end()).outcome?.status).toBe('completed');
    expect(job.readInputs('store')).toMatchObject([{ notified: false }]);
  });

  it.each([
    ['rejected', 'PROVIDER_REJECTED_INPUT'],
    // Canceled at the provider, without a cancel of the job.
    ['canceled', 'PROVIDER_ERROR'],
  ] as const)('that finds the call %s fails the job as %s', async (kind, type) => {
    const end = await scripted.run({ check: checks(pending, failure(kind)) });
    expect(end).toMatchObject({
      steps: 'reserve, submit, check, check, release',
      failure: { type },
      errorCode: type,
      details: expect.stringContaining(`- call 1: no output: ${type}, request \`fal-0\``),
    });
  });

  it('fails the job if the outputs can never be stored', async () => {
    const error = { code: 'STORAGE_ERROR', message: 'the storage did not take it' };
    const lost = ApplicationFailure.nonRetryable(error.message, error.code);
    const job = await scripted.start({ store: stores(lost) });
    expect((await job.end()).failure?.type).toBe('STORAGE_ERROR');
    expect(job.readInputs('release')).toMatchObject([{ error }]);
  });
});

describeJobs('a job', () => {
  const toNobody = { webhook: { taskQueue: 'no-worker' } };

  const window = { limit: 9, used: 7, resetAt: 'later', now: 'now' };
  it.each([
    { verdict: 'insufficient_credits' as const, required: 5, balance },
    { verdict: 'window_exhausted' as const, required: 5, ...window, balance },
  ])('that is rejected ($verdict) makes no provider call', async (rejection) => {
    expect(await scripted.run({ reserve: reserves(rejection) }, toNobody)).toMatchObject({
      steps: 'reserve',
      outcome: { status: 'rejected', billing: 'none', reason: rejection.verdict },
      details: expect.stringContaining(`**rejected: ${rejection.verdict}**`),
    });
  });

  it('that was charged before is charged again without effect, and sends nothing', async () => {
    const job = await scripted.start({
      reserve: respond(reserved({ status: 'completed', errorCode: null })),
      charge: respond({ ...settledBefore, ...charged }),
    });
    expect(await job.end()).toMatchObject({
      steps: 'reserve, charge',
      outcome: { status: 'completed', chargedMicro: 4 },
    });
    expect(job.readInputs('charge')).toMatchObject([{ outputs: [] }]);
  });

  const charged = { state: 'charged', charged: 4 } as const;
  runEach({
    'that was released before sends nothing, moves no credits and ends as before': () => {
      const before = { status: 'canceled', errorCode: 'CANCELED' } as const;
      const ends = { errorCode: 'CANCELED', billingState: 'released' };
      const outcome = { status: 'canceled', billing: 'released', reason: 'CANCELED' };
      const end = { steps: 'reserve', ...ends, outcome: { ...outcome, chargedMicro: 0 } };
      return [{ reserve: respond(reserved(before)) }, {}, end];
    },
    'that an earlier run has charged ends as completed, although this run has failed': () => [
      {
        check: checks(failure('failed')),
        release: respond({ ...settledBefore, ...charged }),
      },
      {},
      {
        steps: expect.stringMatching(/release$/),
        outcome: { status: 'completed', billing: 'charged', chargedMicro: 4 },
        details: expect.stringContaining('**charged'),
      },
    ],
    'that the sweeper released while it ran ends with JOB_LOST': () => [
      { charge: respond({ ...settledBefore, state: 'released', charged: 0 } as const) },
      {},
      {
        outcome: { status: 'failed', billing: 'released', reason: 'JOB_LOST' },
        details: expect.stringContaining('**released 1 credits: JOB_LOST**'),
      },
    ],
    'without a reservation fails with “nothing was reserved”, and delivers no webhook': () => {
      const reserve = reserves(ApplicationFailure.nonRetryable('no account'));
      const release = respond({ verdict: 'not_reserved' } as const);
      const type = 'Internal server error';
      const message = `nothing was reserved: ${type}, The job failed on our side.`;
      const end = { steps: 'reserve, release', failure: { type, message } };
      return [{ reserve, release }, toNobody, end];
    },
  });

  it('delivers its webhook after success and after failure, and Temporal retries the delivery', async () => {
    const webhook = { taskQueue: scripted.webhookQueue };
    const retried = respond<unknown, void>(
      ApplicationFailure.create({ type: 'WEBHOOK_NOT_DELIVERED', nextRetryDelay: 10 }),
      undefined,
    );
    const good = await scripted.start({ attemptDelivery: retried }, { webhook });
    const bad = await scripted.start({ store: stores(failure('failed')) }, { webhook });
    await Promise.all([good.untilCalled('attemptDelivery', 2), bad.untilCalled('attemptDelivery')]);
    expect((await good.end()).outcome?.status).toBe('completed');
    expect((await bad.end()).failure?.type).toBe('PROVIDER_ERROR');
    const { jobId, organizationId } = good.plan;
    const name = { subjectId: jobId, organizationId };
    expect(good.readInputs('attemptDelivery')).toEqual([name, name]);
  });

  it('without a plan version fails at once', async () => {
    const job = await scripted.start({}, { planVersion: undefined } as object);
    await expect(job.handle.result()).rejects.toMatchObject({ cause: { type: 'UNKNOWN_PLAN' } });
    expect(job.calls).toEqual([]);
  });

  it('with an unknown plan version waits for a worker that supports it', async () => {
    const job = await scripted.start({}, { planVersion: 9 });
    const messages = async () =>
      (await job.handle.fetchHistory()).events?.flatMap(
        (event) => event.workflowTaskFailedEventAttributes?.failure?.message ?? [],
      );
    const message = 'the plan has version 9; this worker only runs versions 1, 2, 4';
    await expect.poll(messages).toContain(message);
    expect((await job.handle.describe()).status.name).toBe('RUNNING');
    expect(job.calls).toEqual([]);
    await job.handle.terminate();
  });
});

describeJobs('a job with several calls', () => {
  const calls = (...changes: Partial<PlannedCall>[]): { calls: PlannedCall[] } => ({
    calls: changes.map((change, index) => scripted.call({ index, ...change })),
  });
  /** Stores the outputs of the calls, of which these fail. */
  const failing = (...indexes: number[]) =>
    respond<{ callIndex: number }, CallOutputs>(async ({ callIndex }) => {
      if (indexes.includes(callIndex)) throw failure(callIndex === 2 ? 'failed' : 'content_policy');
      return makeOutputs(callIndex);
    });
  const fromFirst = { inputFrom: { callIndex: 0, field: 'image_url' } };

  it('sends them through the queue, and charges the delivered outputs', async () => {
    const job = await scripted.start({ store: failing(1) }, calls({}, {}, {}));
    const end = await job.end();
    expect(end.outcome).toMatchObject({ status: 'completed', chargedMicro: 2_000_000 });
    const error = { code: 'CONTENT_POLICY', message: 'it is content_policy' };
    expect(job.readInputs('charge')[0]?.outputs).toEqual([
      withLine(makeOutputs(0)),
      { callIndex: 1, artifacts: [], data: null, delivered: 0, error },
      withLine(makeOutputs(2)),
    ]);
    const queued = ['check', 'store', 'submit'].flatMap((verb) => Array(3).fill(`${verb} on fal`));
    expect(end.steps.split(', ').toSorted()).toEqual(['charge', 'reserve', ...queued].toSorted());
    expect(end.requests?.toSorted()).toEqual(['fal-0', 'fal-1', 'fal-2']);
    expect((await end.progress()).calls.map(({ phase }) => phase)).toEqual([
      'delivered',
      'no output: CONTENT_POLICY',
      'delivered',
    ]);
  });

  it('releases its reservation with the error of the first call if all calls fail', async () => {
    const end = await scripted.run({ store: failing(0, 1, 2) }, calls({}, {}, {}));
    expect(end).toMatchObject(failedEnd('CONTENT_POLICY', /release$/));
  });

  it('releases its reservation if a required call fails, even if others delivered', async () => {
    const job = await scripted.start({ store: failing(1) }, calls({}, { required: true }));
    expect((await job.end()).failure?.type).toBe('CONTENT_POLICY');
    expect(job.readInputs('charge')).toEqual([]);
  });

  it('passes the output of the first step to the second', async () => {
    const job = await scripted.start({}, calls({}, fromFirst));
    expect((await job.end()).outcome).toMatchObject({ chargedMicro: 2_000_000 });
    expect(job.readInputs('submit').map(({ source }) => source)).toEqual([
      null,
      { field: 'image_url', storageKey: makeArtifact(0).storageKey },
    ]);
  });

  it.each([0, 1])('fails if step %i fails, without the next one', async (step) => {
    const job = await scripted.start({ store: failing(step) }, calls({}, fromFirst));
    expect((await job.end()).failure?.type).toBe('CONTENT_POLICY');
    expect(job.readInputs('submit')).toHaveLength(step + 1);
  });

  it('assembles the outputs in the order of the calls', async () => {
    const job = await scripted.start({}, { ...calls({}, {}), assembly: 'concat_audio' });
    const end = await job.end();
    expect(job.readInputs('assemble')).toMatchObject([
      { kind: 'concat_audio', callIndex: 2, parts: [makeArtifact(0), makeArtifact(1)] },
    ]);
    expect(job.readInputs('charge')[0]?.outputs).toEqual([
      withLine(makeOutputs(0)),
      withLine(makeOutputs(1)),
      makeOutputs(2),
    ]);
    expect(end.steps).toMatch(/assemble, charge$/);
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
      const counts = new Map<string, number>();
      /** Returns 0 to 6, by the key and the number of calls with it; the same in every run. */
      const chance = (key: string): number => {
        const times = (counts.get(key) ?? 0) + 1;
        counts.set(key, times);
        return (createHash('sha256').update(`${seed} ${key} ${times}`).digest()[0] ?? 0) % 7;
      };
      const job = await scripted.start(
        {
          async submit({ callIndex, route }) {
            const luck = chance(`submit${callIndex}${route.provider}`);
            await sleep(luck * 3);
            if (route.provider === 'fal' && luck < 2) throw failure('misconfigured');
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
        calls(...changes),
      );
      for (const index of [0, 2]) await job.notify(`fal-${index}`, index).catch(() => {});
      const end = await job.end();
      expect(end.outcome?.status ?? end.failure?.type).toMatch(/completed|PROVIDER_ERROR/);
    },
  );
});

it('every history that these tests recorded replays', async () => {
  const histories = [];
  for (const { handle } of scripted.jobs) {
    const { status } = await handle.describe();
    if (status.name === 'TERMINATED') continue;
    histories.push({ workflowId: handle.workflowId, history: await handle.fetchHistory() });
  }
  expect(histories.length).toBeGreaterThan(60);
  const workflowBundle = await loadWorkflowBundle();
  const failures: string[] = [];
  const replays = Worker.runReplayHistories({ workflowBundle }, histories);
  for await (const { workflowId, error } of replays) {
    if (error) failures.push(`${workflowId}: ${error.message}`);
  }
  expect(failures).toEqual([]);
});
