/** `node worker/build.ts`: builds the workflow bundles in advance, so that workers start faster. */
import { loadWorkflowBundle } from './bundle.ts';

for (const encodeFailures of [false, true]) await loadWorkflowBundle({ encodeFailures });
