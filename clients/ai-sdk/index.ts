/** AI SDK provider for the Studio Gateway (README.md). */
export { createStudio, type StudioProvider, type StudioSettings } from './provider.ts';
export type { ImageModelId } from './image-model.ts';
export type { SpeechModelId } from './speech-model.ts';
export type { StudioOperation, VideoModelId } from './video-model.ts';
export type { TranscriptionModelId } from './transcription-model.ts';
