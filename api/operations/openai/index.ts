/**
 * OpenAI's endpoints beside its chat (api/operations/chat.ts): each translates a request into that of a
 * Studio capability, and the job's result into what OpenAI's clients read.
 */
import { section } from '../operation.ts';
import { audioSpeech, audioTranscriptions } from './audio.ts';
import { imagesEdits, imagesGenerations } from './images.ts';
import { videos } from './videos.ts';

/** Operations of OpenAI’s endpoints. */
export const openai = section('OpenAI’s endpoints', {
  imagesGenerations,
  imagesEdits,
  audioSpeech,
  audioTranscriptions,
  ...videos,
});
