/**
 * A job's steps without anything in them: as Temporal's tutorials write them, and as little as the
 * engine can do.
 */
import {
  condition,
  defineSignal,
  proxyActivities,
  proxyLocalActivities,
  setHandler,
} from '@temporalio/workflow';
import type { Steps } from '../driven.ts';

const providerNotification = defineSignal('providerNotification');
const options = { startToCloseTimeout: '1 minute' } as const;
const ordinary = proxyActivities<Steps>(options);
const local = proxyLocalActivities<Steps>(options);

/** Listens for the provider. @returns what waits for it */
function hearProvider(): () => Promise<void> {
  let isNotified = false;
  setHandler(providerNotification, () => {
    isNotified = true;
  });
  return () => condition(() => isNotified);
}

/** Two ordinary activities, the signal, two ordinary activities; default options. */
export async function bare(jobId: string): Promise<void> {
  const notified = hearProvider();
  await ordinary.reserve(jobId);
  await ordinary.submit(jobId);
  await notified();
  await ordinary.store(jobId);
  await ordinary.charge(jobId);
}

/** A local step, the signal, a local step: two workflow tasks. */
export async function floor(jobId: string): Promise<void> {
  const notified = hearProvider();
  await local.submit(jobId);
  await notified();
  await local.charge(jobId);
}

/** The floor with every step: two local ones, the signal, two local ones. */
export async function floor4(jobId: string): Promise<void> {
  const notified = hearProvider();
  await local.reserve(jobId);
  await local.submit(jobId);
  await notified();
  await local.store(jobId);
  await local.charge(jobId);
}
