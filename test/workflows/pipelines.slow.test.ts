/** Pipelines with scripted activities: which steps run, and what the job is charged for. */
import * as fc from 'fast-check';
import { ApplicationFailure } from '@temporalio/common';
import { Worker } from '@temporalio/worker';
import { describe, expect, it } from 'vitest';
import { isWhole } from '../harness/whole.ts';
import { decideUpdate, type ApprovalEvent, type Decision } from '../../domain/approvals.ts';
import type { StepToComplete } from '../../activities/complete-step.ts';
import type { SubmitOutcome } from '../../activities/submit.ts';
import type { CallInput, PlannedCall } from '../../domain/job-plan.ts';
import type { PipelineStep } from '../../domain/pipeline-plan.ts';
import { loadWorkflowBundle } from '../../worker/bundle.ts';
import { during } from '../harness/during.ts';
import { makeOutputs, startScriptedJobs, type Script } from '../harness/scripted-jobs.ts';
import { until } from '../harness/until.ts';

const scripted = during(startScriptedJobs);

type Ending = 'delivers' | 'is rejected' | 'costs too much';
interface Drawn {
  /** Indexes of the earlier steps whose results the step takes. */
  after: number[];
  ending: Ending;
  credits: number;
}

/** Random pipelines: each step takes results of some earlier steps. */
const drawnSteps: fc.Arbitrary<Drawn[]> = fc
  .array(
    fc.record({
      after: fc.array(fc.nat(30), { maxLength: 2 }),
      ending: fc.constantFrom<Ending>('delivers', 'delivers', 'is rejected', 'costs too much'),
      credits: fc.integer({ min: 1, max: 50 }),
    }),
    { minLength: 1, maxLength: 6 },
  )
  .map((steps) =>
    steps.map((step, index) => ({
      ...step,
      after: index === 0 ? [] : [...new Set(step.after.map((other) => other % index))],
    })),
  );

const id = (index: number): string => `step${index}`;

function toPlan(drawn: Drawn[]): { steps: PipelineStep[]; calls: PlannedCall[] } {
  const calls = drawn.map(({ credits }, index) =>
    scripted.call({ index, unitPriceMicro: credits * 1_000_000 }),
  );
  const steps = drawn.map(({ after, credits }, index) => ({
    id: id(index),
    use: 'image/upscale',
    type: 'imageUpscale',
    model: 'model',
    calls: [index, 1] as [number, number],
    assembly: null,
    assembledIndex: null,
    outputs: [{ medium: 'image' as const, callIndex: index, artifactIndex: 0 }],
    after: after.map(id),
    references: after.map((other) => ({
      token: `token${other}`,
      field: 'steps.0.body.imageUrl',
      from: id(other),
      takes: 'file' as const,
      output: { callIndex: other, artifactIndex: 0 },
    })),
    priceMicro: credits * 1_000_000,
    deadlineMs: 60_000,
  }));
  return { steps, calls };
}

/** Returns the state in which each step must end: a step without its sources is skipped. */
function expectEnds(drawn: Drawn[]): ('delivered' | 'failed' | 'skipped')[] {
  const ends: ('delivered' | 'failed' | 'skipped')[] = [];
  for (const { after, ending } of drawn) {
    // Only a step that takes a result is priced when it starts.
    const fails = ending === 'is rejected' || (ending === 'costs too much' && after.length > 0);
    const lacksSource = after.some((other) => ends[other] !== 'delivered');
    ends.push(lacksSource ? 'skipped' : fails ? 'failed' : 'delivered');
  }
  return ends;
}

async function submitDrawn(drawn: Drawn[], { callIndex }: CallInput): Promise<SubmitOutcome> {
  if (drawn[callIndex]?.ending === 'is rejected')
    throw ApplicationFailure.nonRetryable('it is rejected', 'CONTENT_POLICY');
  return { kind: 'outputs', outputs: makeOutputs(callIndex), providerRequestId: `r${callIndex}` };
}

const script = (drawn: Drawn[]): Script => ({
  submit: (task: CallInput) => submitDrawn(drawn, task),
  async completeStep({ step, calls, sources }: StepToComplete) {
    for (const { outputs } of sources) expect(outputs?.artifacts).toHaveLength(1);
    if (drawn[step.calls[0]]?.ending === 'costs too much')
      throw ApplicationFailure.nonRetryable('it costs too much', 'PRICE_LIMIT_EXCEEDED');
    return { calls, texts: {} };
  },
});

describe('a random pipeline', () => {
  it('is charged for exactly the steps that delivered', async () => {
    await fc.assert(
      fc.asyncProperty(drawnSteps, async (drawn) => {
        const { steps, calls } = toPlan(drawn);
        const ends = expectEnds(drawn);
        const job = await scripted.start(script(drawn), { type: 'pipeline', steps, calls });
        const { outcome, failure } = await job.end();
        const sent = job.readInputs('submit').map((task) => task.callIndex);
        const reached = ends.flatMap((end, index) =>
          end === 'delivered' || (end === 'failed' && drawn[index]?.ending === 'is rejected')
            ? [index]
            : [],
        );
        // Each call is sent once, and only if all that its step takes was delivered and affordable.
        expect(sent.toSorted((one, other) => one - other)).toEqual(reached);
        const creditsMicro = ends.reduce(
          (sum, end, index) =>
            sum + (end === 'delivered' ? (drawn[index]?.credits ?? 0) * 1_000_000 : 0),
          0,
        );
        if (creditsMicro === 0) {
          expect(failure?.message).toContain('released');
          expect(job.readInputs('charge')).toEqual([]);
          return;
        }
        expect(outcome).toMatchObject({ status: 'completed', chargedMicro: creditsMicro });
        const [charge] = job.readInputs('charge');
        expect(charge?.chargeMicro).toBe(creditsMicro);
        const errors = charge?.outputs.map(({ error }) => error?.code ?? null);
        expect(errors?.map((code) => code === 'SKIPPED')).toEqual(
          ends.map((end) => end === 'skipped'),
        );
        expect(job.readInputs('release')).toEqual([]);
      }),
      { numRuns: isWhole ? 40 : 12 },
    );
  });
});

it('shows its steps by name in the summaries and Current Details', async () => {
  const drawn: Drawn[] = [
    { after: [], ending: 'delivers', credits: 3 },
    { after: [0], ending: 'is rejected', credits: 4 },
    { after: [1], ending: 'delivers', credits: 5 },
  ];
  const { steps, calls } = toPlan(drawn);
  // The first step waits for a paused provider, and joins its outputs.
  const joined = steps.map((step, index) =>
    index === 0 ? { ...step, assembly: 'concat_audio' as const, assembledIndex: 3 } : step,
  );
  let isPaused = true;
  const paused: Script = {
    ...script(drawn),
    async submit(task: CallInput) {
      if (!isPaused) return submitDrawn(drawn, task);
      isPaused = false;
      return { kind: 'paused' };
    },
  };
  const job = await scripted.start(paused, { type: 'pipeline', steps: joined, calls });
  const { details } = await job.end();
  expect(details).toMatch(/\*\*step0\*\* image\/upscale\n {2}- call 1: delivered/);
  expect(details).toMatch(
    /\*\*step1\*\* .* \(after step0\)\n {2}- call 1: no output: CONTENT_POLICY/,
  );
  expect(details).toMatch(/\*\*step2\*\* .*\n {2}- call 1: no output: SKIPPED/);
  const { events } = await job.handle.fetchHistory();
  const summaries = (events ?? []).flatMap(({ userMetadata }) =>
    userMetadata?.summary?.data
      ? [JSON.parse(Buffer.from(userMetadata.summary.data).toString())]
      : [],
  );
  expect(summaries).toContain('step0: submit · fal draw');
  expect(summaries).toContain('step1: complete');
  expect(summaries).toContain('step0: paused: fal');
  expect(summaries).toContain('step0: assemble · 1 parts');
  const unnamed = summaries.filter((summary) => !/^step\d: /.test(summary));
  // Only the rows `reserve` and `charge` belong to the whole job.
  expect(unnamed).toEqual(['12 credits', '3 credits']);
});

describe('a step that waits for an approval', () => {
  const weekMs = 7 * 86_400_000;
  const drawn: Drawn[] = [
    { after: [], ending: 'delivers', credits: 4 },
    { after: [0], ending: 'delivers', credits: 150 },
    { after: [1], ending: 'delivers', credits: 10 },
    { after: [], ending: 'delivers', credits: 2 },
  ];
  const approve: Decision = {
    stepId: 'step1',
    kind: 'approve',
    hash: 'a',
    keyId: 'key',
    reason: null,
    outputs: { step0: 1 },
  };

  /** Starts the pipeline; its second step waits, and chooses one of two outputs. */
  async function startWaiting(withinMs: number, changes: Script = {}) {
    const { steps, calls } = toPlan(drawn);
    const waiting = steps.map((step) => {
      if (step.id !== 'step1') return step;
      const choices = [0, 1].map((artifactIndex) => ({ callIndex: 0, artifactIndex }));
      const references = step.references.map((reference) => ({ ...reference, choices }));
      // The deadlines do not run while the step waits.
      return { ...step, approval: { withinMs }, references };
    });
    const plan = { type: 'pipeline', steps: waiting, calls, planVersion: 2, deadlineMs: 1 };
    const job = await scripted.start({ ...script(drawn), ...changes }, plan);
    await job.untilCalled('recordApproval');
    const decide = (decision: Decision) =>
      job.handle.executeUpdate(decideUpdate, { args: [decision] });
    const untilWaiting = () =>
      until(async () => {
        const { events } = await job.handle.fetchHistory();
        return (events ?? []).find(({ timerStartedEventAttributes: timer }) => timer);
      });
    return { ...job, decide, untilWaiting };
  }
  const readEvents = (job: { readInputs: (name: 'recordApproval') => ApprovalEvent[] }) =>
    job.readInputs('recordApproval').map(({ stepId, change }) => ({ stepId, change }));

  it('runs with the chosen output once it is approved, and replays', async () => {
    const job = await startWaiting(weekMs);
    const timer = await job.untilWaiting();
    const seconds = timer.timerStartedEventAttributes?.startToFireTimeout?.seconds;
    expect(Number(seconds)).toBeGreaterThan(weekMs / 1000 - 60);
    // The step that waits has sent nothing; the other two run at the same time.
    await job.untilCalled('submit', 2);
    const sent = job.readInputs('submit').map(({ callIndex }) => callIndex);
    expect(sent.toSorted((one, other) => one - other)).toEqual([0, 3]);
    const answers = await Promise.allSettled([
      job.decide(approve),
      job.decide(approve),
      job.decide({ ...approve, kind: 'reject', hash: 'b' }),
    ]);
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    const types = answers.flatMap((answer) =>
      answer.status === 'rejected' ? [answer.reason.cause.type] : [],
    );
    // Which of them is first, Temporal decides.
    expect(['ALREADY_DECIDED,SAME_DECISION', 'ALREADY_DECIDED,ALREADY_DECIDED']).toContain(
      types.toSorted().join(),
    );
    const isApproved = answers[2]?.status === 'rejected';
    const { outcome } = await job.end();
    expect(outcome).toMatchObject({ chargedMicro: (isApproved ? 166 : 6) * 1_000_000 });
    const [begin, end] = readEvents(job);
    expect(begin).toMatchObject({ stepId: 'step1', change: { kind: 'begin', outputs: [{}] } });
    expect(end).toMatchObject({ change: { end: { kind: isApproved ? 'approve' : 'reject' } } });
    if (isApproved) {
      const [task] = job.readInputs('completeStep');
      expect(task?.step.references[0]?.output).toEqual({ callIndex: 0, artifactIndex: 1 });
    }
    // A refused decision is not in the history.
    const history = await job.handle.fetchHistory();
    const updates = (history.events ?? []).filter(
      ({ workflowExecutionUpdateAcceptedEventAttributes: accepted }) => accepted,
    );
    expect(updates).toHaveLength(1);
    await Worker.runReplayHistory({ workflowBundle: await loadWorkflowBundle() }, history);
  });

  it.each<
    [
      string,
      number,
      ((job: { decide: (decision: Decision) => Promise<void> }) => Promise<unknown>) | null,
    ]
  >([
    ['APPROVAL_TIMEOUT', 1000, null],
    ['APPROVAL_REJECTED', weekMs, ({ decide }) => decide({ ...approve, kind: 'reject' })],
  ])(
    'that ends with %s is skipped with its dependents, and the others are charged',
    async (code, withinMs, act) => {
      const job = await startWaiting(withinMs);
      await job.untilWaiting();
      await act?.(job);
      const { outcome, details } = await job.end();
      expect(outcome).toMatchObject({ status: 'completed', chargedMicro: 6_000_000 });
      const [charge] = job.readInputs('charge');
      const errors = charge?.outputs.map(({ error }) => error?.code ?? null);
      expect(errors).toEqual([null, code, 'SKIPPED', null]);
      expect(details).toContain(`no output: ${code}`);
      await expect(job.decide(approve)).rejects.toThrow();
    },
  );

  it('keeps the decision that is in the row, and refuses the one that arrives', async () => {
    const { hash: _, ...other } = approve;
    const end = { ...other, hash: 'b', changed: null };
    const job = await startWaiting(weekMs, {
      recordApproval: async ({ change }) => ({
        end: change.kind === 'begin' ? null : end,
        webhookIds: [],
        jobUrl: '',
      }),
    });
    const answer = await job
      .decide({ ...approve, kind: 'reject' })
      .catch((error: unknown) => error);
    expect(answer).toMatchObject({ cause: { type: 'ALREADY_DECIDED' } });
    expect((await job.end()).outcome).toMatchObject({ chargedMicro: 166_000_000 });
  });

  it('is canceled with its job, and a decision comes too late', async () => {
    const job = await startWaiting(weekMs);
    await job.untilWaiting();
    await job.handle.cancel();
    const { outcome } = await job.end();
    expect(outcome).toMatchObject({ status: 'completed', chargedMicro: 6_000_000 });
    expect(readEvents(job)[1]).toMatchObject({ change: { end: { kind: 'cancel', hash: null } } });
  });

  it('runs with the calls that a changed body plans', async () => {
    const job = await startWaiting(weekMs);
    await job.untilWaiting();
    const [, step] = job.plan.steps ?? [];
    const [, call] = job.plan.calls;
    if (!step || !call) throw new Error('the plan has two steps');
    const changed = {
      step: { ...step, references: [] },
      calls: [{ ...call, unitPriceMicro: 140_000_000 }],
    };
    await job.decide({ ...approve, changed, body: { prompt: 'calm' } });
    expect((await job.end()).outcome).toMatchObject({ chargedMicro: 156_000_000 });
    expect(readEvents(job)[1]).toMatchObject({
      change: { body: { prompt: 'calm' }, end: { changed: { step: {} } } },
    });
  });
});
