/** All Studio capabilities. Adding one is one import and one line. */
import type { Capability } from './capability.ts';
import { imageGenerate } from './image-generate.ts';

/** In the order of the spec. */
export const capabilities: readonly Capability[] = [imageGenerate];

/** The capability behind a job's `type`. */
export function findCapability(type: string): Capability | undefined {
  return capabilities.find((capability) => capability.type === type);
}
