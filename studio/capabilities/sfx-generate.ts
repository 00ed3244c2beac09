/** POST /studio/sfx/generate (spec §4.10). */
import { z } from 'zod';
import { audioModels } from '../models/audio-models.ts';
import { defineCapability } from './capability.ts';
import { publishAudioModel } from '../models/published-models.ts';
import { presentFile, storedFileData, getRecording } from './presentation.ts';
import { asyncFlag, numberField, numberFieldWithDefault, textField } from './request-fields.ts';

const model = audioModels.soundEffect;
const { limits } = model;

const request = z.strictObject({
  prompt: textField(limits.prompt),
  durationSeconds: numberField(limits.durationSeconds)
    .optional()
    .meta({ description: 'If not set, the model chooses the duration.' }),
  promptInfluence: numberFieldWithDefault(limits.promptInfluence),
  loop: z.boolean().optional(),
  async: asyncFlag,
});

/** Generates a sound effect. */
export const sfxGenerate = defineCapability({
  type: 'sfxGenerate',
  path: '/studio/sfx/generate',
  medium: 'audio',
  summary: 'Generate a sound effect',
  request,
  takes: { prompt: ['text'] },
  example: { prompt: 'waves against a quay', durationSeconds: 5 },
  data: z.object({
    ...storedFileData,
    prompt: z.string(),
    durationSeconds: z.number(),
    model: z.string(),
  }),
  models: [
    publishAudioModel(model, { of: 'durationSeconds', default: limits.durationSeconds.max }),
  ],
  plan: (body) => ({
    model: model.id,
    calls: [
      {
        required: true,
        output: {
          medium: 'audio',
          format: null,
          ...(body.durationSeconds !== undefined && {
            expected: { durationSeconds: body.durationSeconds },
          }),
        },
        meter: 'second',
        // Credits for the maximum duration are reserved if the model chooses the duration. Only the
        // delivered seconds are charged.
        quantity: Math.ceil(body.durationSeconds ?? limits.durationSeconds.max),
        unitPriceUsd: model.usd,
        priceNote:
          body.durationSeconds === undefined
            ? 'without durationSeconds, the model chooses the length: the maximum length is reserved, and the delivered seconds are charged'
            : undefined,
        routes: [
          {
            provider: model.provider,
            providerEndpoint: 'sound-generation',
            input: {
              text: body.prompt,
              model_id: model.id,
              prompt_influence: body.promptInfluence,
              ...(body.durationSeconds !== undefined && { duration_seconds: body.durationSeconds }),
              ...(body.loop !== undefined && { loop: body.loop }),
            },
          },
        ],
      },
    ],
  }),
  present(job) {
    const recording = getRecording(job);
    return {
      ...presentFile(job, recording),
      prompt: job.request['prompt'],
      durationSeconds: recording.durationSeconds,
      model: job.model,
    };
  },
});
