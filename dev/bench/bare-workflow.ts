/** A job's steps without anything in them, as Temporal's tutorials write them, with default options. */
import { condition, defineSignal, proxyActivities, setHandler } from '@temporalio/workflow';
import type { Steps } from './bare.ts';

const providerNotification = defineSignal('providerNotification');
const { reserve, submit, store, charge } = proxyActivities<Steps>({
  startToCloseTimeout: '1 minute',
});

/** Two activities, the signal, two activities. */
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
