/**
 * Workflow types. Each capability has a type of its own, so that operators can filter by it; all run
 * the same body over their plan. This file is the entry of the workflow bundle.
 */
export { studioJob as imageGenerate } from './studio-job.ts';
export { studioJob as voiceoverGenerate } from './studio-job.ts';
export { studioJob as dialogueGenerate } from './studio-job.ts';
export { studioJob as musicPlan } from './studio-job.ts';
export { studioJob as musicGenerate } from './studio-job.ts';
export { studioJob as sfxGenerate } from './studio-job.ts';
export { studioJob as audioTranscribe } from './studio-job.ts';
