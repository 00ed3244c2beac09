/** Workflow of the variant `bare`: the steps of a job as empty activities, with Temporal's default options. */
import { condition, defineSignal, proxyActivities, setHandler } from '@temporalio/workflow';
import type { Steps } from './bare.ts';

const providerNotification = defineSignal('providerNotification');
const { reserve, submit, store, charge } = proxyActivities<Steps>({
  startToCloseTimeout: '1 minute',
});

/** Runs two activities, waits for the provider's signal, and runs two more activities. */
export async function bare(jobId: string, providerMs: number): Promise<void> {
  let isNotified = false;
  setHandler(providerNotification, () => {
    isNotified = true;
  });
  await reserve(jobId);
  await submit(jobId, providerMs);
  await condition(() => isNotified);
  await store();
  await charge(jobId);
}
