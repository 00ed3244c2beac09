/** The runtime of the Temporal SDK, which all files of a vitest worker share. */
import { IllegalStateError } from '@temporalio/common';
import type { Logger } from '../../platform/logger.ts';
import { installRuntime } from '../../worker/runtime.ts';

/** Installs the runtime unless an earlier file did. */
export function installTestRuntime(logger: Logger): void {
  try {
    installRuntime(logger);
  } catch (error) {
    if (!(error instanceof IllegalStateError)) throw error;
  }
}
