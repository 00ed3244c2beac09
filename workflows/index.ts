/**
 * Workflow types. Each capability has a type of its own, so that operators can filter by it; all run
 * the same body over their plan. This file is the entry of the workflow bundle.
 */
export { studioJob as imageGenerate } from './studio-job.ts';
