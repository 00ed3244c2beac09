/** POST /studio/voiceover/generate (spec §4.8). */
import { z } from 'zod';
import { audioModels } from '../models/audio-models.ts';
import { defaultVoiceName, findProviderVoiceId } from '../models/voices.ts';
import { countCharacters } from '../../domain/field-messages.ts';
import { defineCapability } from './capability.ts';
import { publishAudioModel } from '../models/published-models.ts';
import { presentFile, storedFileData, getRecording } from './presentation.ts';
import { asyncFlag, numberFieldWithDefault, textField, voiceName } from './request-fields.ts';

const model = audioModels.voiceover;
const { limits } = model;

const request = z.strictObject({
  text: textField(limits.text),
  title: textField(limits.title),
  voice: voiceName.default(defaultVoiceName),
  stability: numberFieldWithDefault(limits.stability),
  similarityBoost: numberFieldWithDefault(limits.similarityBoost),
  async: asyncFlag,
});

/** Generates speech from a text. */
export const voiceoverGenerate = defineCapability({
  type: 'voiceoverGenerate',
  path: '/studio/voiceover/generate',
  medium: 'audio',
  summary: 'Turn text into speech',
  request,
  takes: { text: ['text'], title: ['text'] },
  example: { text: 'Welcome to the harbour.', title: 'Welcome', voice: 'rachel' },
  data: z.object({
    ...storedFileData,
    title: z.string(),
    voice: z.string(),
    model: z.string(),
    textLength: z.int(),
    metadata: z.object({ stability: z.number(), similarityBoost: z.number() }),
  }),
  models: [publishAudioModel(model, { of: 'text', default: null })],
  plan(body) {
    return {
      model: model.id,
      calls: [
        {
          required: true,
          output: { medium: 'audio', format: null },
          meter: 'character',
          quantity: countCharacters(body.text),
          unitPriceUsd: model.usd,
          routes: [
            {
              provider: model.provider,
              providerEndpoint: 'text-to-speech',
              input: {
                voice_id: findProviderVoiceId(body.voice),
                text: body.text,
                model_id: model.id,
                voice_settings: {
                  stability: body.stability,
                  similarity_boost: body.similarityBoost,
                },
              },
            },
          ],
        },
      ],
    };
  },
  present(job) {
    const { text, title, voice, stability, similarityBoost } = request.parse(job.request);
    return {
      ...presentFile(job, getRecording(job)),
      title,
      voice,
      model: job.model,
      textLength: countCharacters(text),
      metadata: { stability, similarityBoost },
    };
  },
});
