/** Provider of the AI SDK: creates a model for each kind of work. */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type {
  EmbeddingModelV4,
  Experimental_VideoModelV4,
  ImageModelV4,
  LanguageModelV4,
  ProviderV4,
  SpeechModelV4,
  TranscriptionModelV4,
} from '@ai-sdk/provider';
import { StudioGateway } from 'studio-gateway-client';
import { createImageModel, type ImageModelId } from './image-model.ts';
import { createModelList } from './model-list.ts';
import { createSpeechModel, type SpeechModelId } from './speech-model.ts';
import { createTranscriptionModel, type TranscriptionModelId } from './transcription-model.ts';
import { createVideoModel, type VideoModelId } from './video-model.ts';

/** Settings of the provider. */
export interface StudioSettings {
  /** URL of the gateway, for example `http://127.0.0.1:4000`. */
  baseURL: string;
  /** API key (`gk_live_…`). */
  apiKey: string;
  /** Function to use instead of the global `fetch`. */
  fetch?: typeof globalThis.fetch;
}

/** Provider for the AI SDK. Its models throw `APICallError`, or the reason of an aborted signal. */
export interface StudioProvider extends ProviderV4 {
  /** Creates a chat model. */
  (modelId: string): LanguageModelV4;
  languageModel: (modelId: string) => LanguageModelV4;
  embeddingModel: (modelId: string) => EmbeddingModelV4;
  imageModel: (modelId: ImageModelId) => ImageModelV4;
  videoModel: (modelId: VideoModelId) => Experimental_VideoModelV4;
  speechModel: (modelId?: SpeechModelId) => SpeechModelV4;
  transcriptionModel: (modelId?: TranscriptionModelId) => TranscriptionModelV4;
  /** Client of the API, for everything else: `client.cancel`, `client.job`, uploads. */
  client: StudioGateway;
}

/** Creates a provider. */
export function createStudio(settings: StudioSettings): StudioProvider {
  const { apiKey, baseURL: baseUrl, fetch = globalThis.fetch } = settings;
  const client = new StudioGateway({ apiKey, baseUrl, fetch: (url, init) => fetch(url, init) });
  const studio = { client, fetch, models: createModelList(client) };
  const chat = createOpenAICompatible({
    name: 'studio',
    baseURL: `${baseUrl.replace(/(\/api)?(\/v1)?\/*$/, '')}/v1`,
    apiKey,
    fetch,
    includeUsage: true,
    supportsStructuredOutputs: true,
  });
  const languageModel = (modelId: string): LanguageModelV4 => chat.chatModel(modelId);
  return Object.assign((modelId: string) => languageModel(modelId), {
    specificationVersion: 'v4' as const,
    client,
    languageModel,
    embeddingModel: (modelId: string) => chat.embeddingModel(modelId),
    imageModel: (modelId: ImageModelId) => createImageModel(studio, modelId),
    videoModel: (modelId: VideoModelId) => createVideoModel(studio, modelId),
    speechModel: (modelId: SpeechModelId = 'eleven_multilingual_v2') =>
      createSpeechModel(studio, modelId),
    transcriptionModel: (modelId: TranscriptionModelId = 'scribe_v2') =>
      createTranscriptionModel(studio, modelId),
  });
}
