/**
 * OpenAI's endpoints except chat completions (api/endpoints/chat-completions.ts). Each translates a request
 * into a chat or a Studio job, and the result into OpenAI's response.
 */
import { defineSection } from '../endpoint.ts';
import { backgroundResponses } from './background-responses.ts';
import { batches } from './batch-resource.ts';
import { files } from './file-resource.ts';
import { createEmbeddings, estimateEmbeddings } from './embeddings.ts';
import { imagesEdits, imagesGenerations } from './images.ts';
import { createResponse } from './responses.ts';
import { audioSpeech } from './speech.ts';
import { audioTranscriptions } from './transcriptions.ts';
import { videos } from './videos.ts';

/** OpenAI-compatible endpoints except chat completions. */
export const openai = defineSection('OpenAI’s endpoints', {
  createResponse,
  ...backgroundResponses,
  createEmbeddings,
  estimateEmbeddings,
  imagesGenerations,
  imagesEdits,
  audioSpeech,
  audioTranscriptions,
  ...videos,
  ...files,
  ...batches,
});
