/**
 * The same steps as Temporal's tutorials write them: four ordinary activities, default options. And a
 * workflow that does nothing: what the engine itself costs.
 */
import { proxyActivities } from '@temporalio/workflow';
import type { BareActivities } from './activities.ts';
import type { BareJob } from './contract.ts';

const activities = proxyActivities<BareActivities>({ startToCloseTimeout: '1 minute' });

/** Reserve, call the provider, store, charge. */
export async function bareImage(job: BareJob): Promise<string> {
  await activities.reserve(job);
  const fileUrl = await activities.callProvider(job);
  const path = await activities.store({ ...job, fileUrl });
  await activities.charge(job);
  return path;
}

/** Nothing. */
export async function noop(): Promise<void> {}
