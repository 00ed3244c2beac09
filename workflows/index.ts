/**
 * Workflow types. Each capability has a type of its own, so that operators can filter by it; all run
 * the same body over their plan. This file is the entry of the workflow bundle.
 */
export {
  studioJob as audioTranscribe,
  studioJob as dialogueGenerate,
  studioJob as imageBatch,
  studioJob as imageEdit,
  studioJob as imageGenerate,
  studioJob as imageRemoveBackground,
  studioJob as imageUpscale,
  studioJob as musicGenerate,
  studioJob as musicPlan,
  studioJob as sfxGenerate,
  studioJob as videoGenerate,
  studioJob as videoRemoveBackground,
  studioJob as videoUpscale,
  studioJob as voiceoverGenerate,
} from './studio-job.ts';
export { webhookDelivery } from './webhook-delivery.ts';
