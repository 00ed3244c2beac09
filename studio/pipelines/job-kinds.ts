/** Kinds of jobs: those of one capability, and pipelines. */
import type { Capability } from '../capabilities/capability.ts';
import { capabilities } from '../capabilities/capability-registry.ts';
import { pipelines } from './pipeline-requests.ts';

/** All kinds of jobs. */
export const jobKinds: readonly Capability[] = [...capabilities, pipelines];

/** Returns the capability with a job's `type`; undefined if there is none. */
export function findCapability(type: string): Capability | undefined {
  return jobKinds.find((capability) => capability.type === type);
}
