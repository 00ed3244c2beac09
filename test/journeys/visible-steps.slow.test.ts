/**
 * The Temporal UI view of a job for operators: a row for each step, and descriptions that are
 * correct to the end.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { progressQuery, searchAttributes } from '../../domain/job-contract.ts';
import { useGateway } from '../harness/gateway.ts';
import { startWorkers } from '../harness/running-gateway.ts';
import { readTimeline, listSteps, type TimelineRow } from '../harness/timeline.ts';

const env = { FIRST_CHECK_MAX_MS: '30000', IMAGE_DEADLINE_MS: '60000' };
const gateway = useGateway({ env, settled: 'last' });

/** A job as operators read it. */
interface Story {
  why: string;
  unacceptedSubmits: object[];
  calls: { begunAt: string; updatedAt: string; providerErrorType: string | null }[];
  steps: { name: string; state: string; provider: string | null; startedAt: string | null }[];
}

const readRows = (jobId: string) => readTimeline(gateway.api.client, jobId);

const readSubmits = (rows: readonly TimelineRow[]) =>
  rows.filter(({ name }) => name === 'submit').map(({ summary }) => summary);

/** Waits until a job has ended in this status. */
async function untilEnded(jobId: string, status = 'completed'): Promise<void> {
  expect((await gateway.untilDone(jobId)).body.data.status).toBe(status);
}

async function readDetails(jobId: string): Promise<string> {
  const { currentDetails } = await gateway
    .getWorkflow(jobId)
    .query<{ currentDetails: string }>('__temporal_workflow_metadata');
  return currentDetails;
}

async function readAttributes(jobId: string) {
  const { typedSearchAttributes, priority } = await gateway.getWorkflow(jobId).describe();
  expect(priority?.fairnessKey).toBe(gateway.caller.organizationId);
  const { provider, providerRequestId, errorCode, jobStatus, billingState } = searchAttributes;
  return {
    provider: typedSearchAttributes.get(provider),
    requests: typedSearchAttributes.get(providerRequestId),
    errorCode: typedSearchAttributes.get(errorCode),
    jobStatus: typedSearchAttributes.get(jobStatus),
    billing: typedSearchAttributes.get(billingState),
  };
}

describe('a job', () => {
  it('has a row for each step, and a signal for its provider’s notification', async () => {
    const jobId = await gateway.startImage({ prompt: 'a swift' });
    await untilEnded(jobId);
    const rows = await readRows(jobId);
    expect(listSteps(rows).join(', ')).toBe(
      'reserve, submit, signal providerNotification, store, charge',
    );
    const summaries = rows.map(({ name, summary }) => [name, summary]);
    for (const name of ['reserve', 'charge'])
      expect(summaries).toContainEqual([name, '3.9 credits']);
    for (const name of ['submit', 'store'])
      expect(summaries).toContainEqual([name, 'fal nano-banana']);
    const [sent] = await gateway.sandbox.submits({ jobId });
    expect(rows.find(({ name }) => name === 'submit')?.result).toMatchObject({
      kind: 'operation',
      operation: { id: sent?.requestId },
    });
    expect(await readAttributes(jobId)).toEqual({
      provider: 'fal',
      requests: [sent?.requestId],
      errorCode: undefined,
      jobStatus: 'completed',
      billing: 'charged',
    });
    expect(rows.find(({ kind }) => kind === 'timer')?.summary).toBe(
      `fal ${sent?.requestId.slice(0, 8)}…: wait for a notification until the next check`,
    );
    const details = await readDetails(jobId);
    expect(details).toContain('**charged 3.9 credits**');
    expect(details).toContain(`call 1: delivered, request \`${sent?.requestId}\``);
    expect(details).not.toContain('next check');
  });

  it('with several calls has the number of the call in each row', async () => {
    const jobId = await gateway.startImage({ prompt: 'nine swifts', numImages: 9 });
    await untilEnded(jobId);
    const rows = await readRows(jobId);
    expect(readSubmits(rows).toSorted()).toEqual(
      [1, 2, 3].map((number) => `call ${number} of 3 · fal nano-banana`),
    );
    expect(listSteps(rows).filter((word) => word === 'signal providerNotification')).toHaveLength(
      3,
    );
    expect((await readAttributes(jobId)).requests).toHaveLength(3);
  });

  it('with a paused provider has no submit, and one activity for the whole pause', async () => {
    const act = (action: string) => gateway.operate(`/providers/fal/${action}`, {});
    await act('pause');
    const jobId = await gateway.startImage({ prompt: 'a swift that waits' });
    await expect
      .poll(
        async () =>
          (await gateway.getWorkflow(jobId).describe()).raw.pendingActivities?.[0]?.lastFailure,
      )
      .toMatchObject({ message: 'paused: fal' });
    expect((await gateway.call(`/api/v1/studio/jobs/${jobId}`)).body.data.phase).toBe(
      'waiting_for_provider',
    );
    const events = await gateway.events(jobId);
    await act('resume');
    await untilEnded(jobId);
    const rows = await readRows(jobId);
    expect(listSteps(rows).filter((word) => word.endsWith('submit'))).toEqual(['submit']);
    expect(listSteps(rows)[1]).toBe('activity awaitResume');
    expect(events.length).toBeLessThan(12);
    const { why, steps } = (await gateway.admin<{ data: Story }>(`/jobs/${jobId}`)).body.data;
    expect(why).toMatch(/ in [\d.]+ s; before that, it waited [\d.]+ s for a paused provider\.$/);
    const names = steps.map(({ name }) => name).join(' ');
    expect(names).toBe('reserve pause submit wait store charge');
  });

  it('that fails has the released amount and the reason in its list entry and its result', async () => {
    const jobId = await gateway.startImage({ prompt: '[[policy]] a rude swift' });
    await untilEnded(jobId, 'failed');
    expect(listSteps(await readRows(jobId)).at(-1)).toBe('release');
    await expect(gateway.getWorkflow(jobId).result()).rejects.toMatchObject({
      cause: {
        type: 'CONTENT_POLICY',
        message: expect.stringMatching(/^released 3\.9 credits: CONTENT_POLICY, /),
      },
    });
    const details = await readDetails(jobId);
    expect(details).toMatch(/^\*\*released 3\.9 credits: CONTENT_POLICY, /);
    expect(details).toContain('call 1: no output: CONTENT_POLICY');
    expect(details).not.toContain('next check');
    expect(await readAttributes(jobId)).toMatchObject({
      errorCode: 'CONTENT_POLICY',
      billing: 'released',
    });
  });

  it.each([
    ['[[policy]] a swift', 'failed', 'content_policy_violation'],
    ['[[fail-result:503]] a swift', 'failed', 'runner_scheduling_failure'],
    ['[[submit:422]] a swift', 'failed', 'value_error'],
    ['a swift', 'completed', null],
  ])(
    '“%s”, which ends as %s, shows only operators the error type %s',
    async (prompt, status, type) => {
      const jobId = await gateway.startImage({ prompt });
      await untilEnded(jobId, status);
      const { calls } = (await gateway.admin<{ data: Story }>(`/jobs/${jobId}`)).body.data;
      expect(calls.map(({ providerErrorType }) => providerErrorType)).toEqual([type]);
      for (const path of ['', '/timeline']) {
        const shown = JSON.stringify(await gateway.call(`/api/v1/studio/jobs/${jobId}${path}`));
        expect(shown).not.toMatch(
          /errorType|content_policy_violation|runner_scheduling|value_error/,
        );
      }
    },
  );

  it('that a second provider accepts is found under that provider', async () => {
    await gateway.sandbox.inject({ match: 'openai/gpt-image-2', faults: 'submit:401x9' });
    const jobId = await gateway.startImage({ prompt: 'a swift elsewhere', model: 'alpha-image-2' });
    await untilEnded(jobId);
    await gateway.sandbox.clearFaults();
    const rows = await readRows(jobId);
    expect(readSubmits(rows)).toEqual(['fal alpha-image-2', 'openai alpha-image-2']);
    const { provider, requests } = await readAttributes(jobId);
    expect(provider).toBe('openai');
    const details = await readDetails(jobId);
    expect(details).toContain(
      'submit of call 1 at fal: the provider did not accept the call (401)',
    );
    expect(details).toContain(`call 1: delivered, request \`${requests?.[0]}\``);
    const story = await gateway.admin<{ data: Story }>(`/jobs/${jobId}`);
    const { why, unacceptedSubmits, calls, steps } = story.body.data;
    expect(why).toMatch(/: openai delivered 1 file .* fal did not accept 1 attempt \(.*401\)\)\.$/);
    expect(unacceptedSubmits).toMatchObject([{ callIndex: 0, provider: 'fal', routeIndex: 0 }]);
    expect(calls).toMatchObject([{ provider: 'openai', providerRequestId: requests?.[0] }]);
    expect(steps.map(({ name, state, provider: at }) => [name, state, at])).toEqual([
      ['reserve', 'done', null],
      ['submit', 'failed', 'fal'],
      ['submit', 'done', 'openai'],
      ['store', 'done', null],
      ['charge', 'done', null],
    ]);
  });
});

describe('a provider with one free slot', () => {
  // Workers of its own task queues, because the number of slots is a setting of workers.
  const narrow = useGateway({
    settled: 'last',
    env: {
      ...env,
      FAL_CONCURRENCY: '1',
      ELEVENLABS_CONCURRENCY: '1',
      TASK_QUEUE_PREFIX: `${randomUUID()}-`,
    },
  });
  let stopWorkers: () => Promise<void>;
  beforeAll(async () => {
    stopWorkers = await startWorkers(narrow.config, narrow.api.services);
  });
  afterAll(() => stopWorkers());

  it('sends a hanging submit once, shown as an activity within four seconds, while other jobs use its queue', async () => {
    const first = await narrow.startImage({
      prompt: '[[hang-submit]] [[slow:900s]] a goose in the door',
    });
    await expect.poll(() => narrow.sandbox.submits({ jobId: first })).toHaveLength(1);
    const other = await narrow.startImage({ prompt: 'a second goose' });
    await expect
      .poll(
        async () => {
          const { raw } = await gateway.getWorkflow(first).describe();
          return raw.pendingActivities?.map(({ activityType }) => activityType?.name);
        },
        { interval: 100 },
      )
      .toEqual(['adopt']);
    expect(await gateway.getWorkflow(first).query(progressQuery)).toMatchObject({
      phase: '1 call(s), 3.9 credits reserved',
      calls: [{ call: 1, phase: 'submitting to fal' }],
    });
    await gateway.sandbox.clearFaults();
    for (const jobId of [other, first]) {
      expect((await narrow.untilDone(jobId)).body.data.status).toBe('completed');
      expect(await narrow.sandbox.submits({ jobId })).toHaveLength(1);
    }
    expect(listSteps(await readRows(first)).slice(0, 3)).toEqual([
      'reserve',
      'submit',
      'activity adopt',
    ]);
    // The submit of the first job hangs; the other job finds no free slot in this process.
    expect(listSteps(await readRows(other))).toContain('activity submit');
  });

  it('gets the calls of a job one after the other', async () => {
    const inputs = ['adam', 'aria', 'lily'].map((voiceId) => ({
      voiceId,
      text: `[[slow:300ms]] ${'word '.repeat(210)}`,
    }));
    const made = await narrow.call('/api/v1/studio/dialogue/generate', {
      body: { title: 'Geese', inputs, async: true },
    });
    await narrow.untilDone(made.body.data.jobId);
    const story = await narrow.admin<{ data: Story }>(`/jobs/${made.body.data.jobId}`);
    const times = story.body.data.calls
      .toSorted((one, next) => one.begunAt.localeCompare(next.begunAt))
      .flatMap(({ begunAt, updatedAt }) => [begunAt, updatedAt]);
    expect(times).toHaveLength(6);
    expect(times).toEqual(times.toSorted());
    const store = story.body.data.steps.find(({ name }) => name === 'store');
    expect(Date.parse(store?.startedAt ?? '')).toBeGreaterThan(Date.parse(times[4] ?? ''));
  });
});
