/** Speech model: `generateSpeech` of the AI SDK. */
import type { SpeechModelV4 } from '@ai-sdk/provider';
import { describeJob, downloadFile, runJob, type Studio } from './jobs.ts';

/** Id of the speech model. */
export type SpeechModelId = 'eleven_multilingual_v2' | (string & {});

const capability = 'voiceover/generate';

/** Characters of a text that become the title of its voiceover. */
const titleCharacters = 60;

/** Creates a speech model, whose voices `GET /api/v1/studio/voices` lists. */
export function createSpeechModel(studio: Studio, modelId: SpeechModelId): SpeechModelV4 {
  return {
    specificationVersion: 'v4',
    provider: 'studio.speech',
    modelId,
    async doGenerate({ text, voice, providerOptions, ...options }) {
      const { instructions, speed, language, outputFormat } = options;
      const { warnings } = await studio.models.takeSettings(
        { capability, modelId, modelType: 'speechModel' },
        {
          instructions: { value: instructions, field: null },
          speed: { value: speed, field: null },
          language: { value: language, field: null },
          outputFormat: { value: outputFormat === 'mp3' ? undefined : outputFormat, field: null },
        },
      );
      const body = {
        text,
        title: text.trim().slice(0, titleCharacters),
        ...(voice !== undefined && { voice }),
        ...providerOptions?.['studio'],
      };
      const job = await runJob(studio, { capability, body }, options);
      const { url, contentCredentials, expiresAt } = job.result;
      return {
        audio: await downloadFile(studio, url, options),
        warnings,
        request: { body },
        providerMetadata: {
          studio: { ...describeJob(job), url, expiresAt, contentCredentials },
        },
        response: { timestamp: new Date(), modelId: job.result.model },
      };
    },
  };
}
