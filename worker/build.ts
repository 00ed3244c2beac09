/**
 * Builds the workflow bundles of this source tree before a worker starts: `node worker/build.ts`.
 */
import { loadWorkflowBundle } from './bundle.ts';

for (const encodeFailures of [false, true]) await loadWorkflowBundle({ encodeFailures });
