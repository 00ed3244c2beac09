/** Builds the workflow bundles of this tree, so that a process that starts finds them: `node worker/build.ts`. */
import { loadWorkflowBundle } from './bundle.ts';

for (const encodeFailures of [false, true]) await loadWorkflowBundle({ encodeFailures });
