/** All Studio capabilities. Adding one is one import and one line. */
import { audioTranscribe } from './audio-transcribe.ts';
import type { Capability } from './capability.ts';
import { dialogueGenerate } from './dialogue-generate.ts';
import { imageGenerate } from './image-generate.ts';
import { musicGenerate } from './music-generate.ts';
import { musicPlan } from './music-plan.ts';
import { sfxGenerate } from './sfx-generate.ts';
import { voiceoverGenerate } from './voiceover-generate.ts';

/** In the order of the spec. */
export const capabilities: readonly Capability[] = [
  imageGenerate,
  voiceoverGenerate,
  dialogueGenerate,
  musicPlan,
  musicGenerate,
  sfxGenerate,
  audioTranscribe,
];

/** The capability behind a job's `type`. */
export function findCapability(type: string): Capability | undefined {
  return capabilities.find((capability) => capability.type === type);
}
