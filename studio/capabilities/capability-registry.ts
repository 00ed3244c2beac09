/**
 * Registry of all Studio capabilities. A new capability needs an import and a line in
 * `capabilities`.
 */
import { audioTranscribe } from './audio-transcribe.ts';
import type { Capability } from './capability.ts';
import { imageBatch } from './image-batch.ts';
import { imageEdit } from './image-edit.ts';
import { imageGenerate } from './image-generate.ts';
import { imageRemoveBackground } from './image-remove-background.ts';
import { imageUpscale } from './image-upscale.ts';
import { videoGenerate } from './video-generate.ts';
import { videoMerge } from './video-merge.ts';
import { videoRemoveBackground } from './video-remove-background.ts';
import { videoUpscale } from './video-upscale.ts';
import { dialogueGenerate } from './dialogue-generate.ts';
import { musicGenerate } from './music-generate.ts';
import { musicPlan } from './music-plan.ts';
import { sfxGenerate } from './sfx-generate.ts';
import { voiceoverGenerate } from './voiceover-generate.ts';

/** All capabilities, in the order of the spec. */
export const capabilities: readonly Capability[] = [
  imageGenerate,
  imageEdit,
  imageUpscale,
  imageRemoveBackground,
  imageBatch,
  videoGenerate,
  videoUpscale,
  videoRemoveBackground,
  videoMerge,
  voiceoverGenerate,
  dialogueGenerate,
  musicPlan,
  musicGenerate,
  sfxGenerate,
  audioTranscribe,
];
