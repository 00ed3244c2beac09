/**
 * A provider could not download an input: a file of the gateway is read again later, because the
 * gateway was unreachable; a file of the caller fails the job.
 */
import { ApplicationFailure } from '@temporalio/common';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  makeOutputs,
  respond,
  startScriptedJobs,
  type ScriptedJobs,
} from '../harness/scripted-jobs.ts';

let jobs: ScriptedJobs;
beforeAll(async () => {
  jobs = await startScriptedJobs();
});
afterAll(() => jobs.close());

const unread = ApplicationFailure.nonRetryable(
  'the provider rejected the input (image_url: file cannot be downloaded)',
  'INPUT_UNREAD',
);
/** Returns a call with this input. */
const readsFrom = (image_url: string) => [
  jobs.call({ routes: [jobs.route('fal', { input: { image_url } })] }),
];

it('sends a call again whose input the gateway stores', async () => {
  const store = respond(unread, async () => makeOutputs(0));
  const end = await jobs.run({ store }, { calls: readsFrom('storage:org/lamp.png') });
  expect(end.outcome).toMatchObject({ status: 'completed', billing: 'charged' });
  expect(end.steps).toBe('reserve, submit, check, store, submit, check, store, charge');
});

it('rejects a call at once whose input another server stores', async () => {
  const store = respond<unknown, never>(unread);
  const calls = readsFrom('https://media.example.com/lamp.png');
  const end = await jobs.run({ store }, { calls });
  expect(end.failure).toMatchObject({ type: 'PROVIDER_REJECTED_INPUT' });
  expect(end.steps).toBe('reserve, submit, check, store, release');
});
