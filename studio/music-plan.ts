/** POST /studio/music/plan (spec §4.9): answered without the common envelope. */
import { z } from 'zod';
import { audioModels } from '../catalog/audio-models.ts';
import { asyncFlag, numberOf, textOf } from './audio-fields.ts';
import { defineCapability } from './capability.ts';
import { compositionPlan, musicModelId, refuseOtherMusicModel } from './music-fields.ts';
import { publishAudioModel } from './published-models.ts';

const model = audioModels.musicPlan;
const { limits } = model;

const request = z.strictObject({
  prompt: textOf(limits.prompt),
  music_length_ms: numberOf(limits.music_length_ms).int().optional(),
  source_composition_plan: compositionPlan.optional(),
  model_id: musicModelId,
  async: asyncFlag,
});

/** Writes a composition plan, reusable as `composition_plan` of music/generate. */
export const musicPlan = defineCapability({
  type: 'musicPlan',
  path: '/studio/music/plan',
  medium: 'audio',
  envelope: 'bare',
  summary: 'Write a composition plan for a song',
  request,
  example: { prompt: 'a calm song about the sea', music_length_ms: 30_000 },
  data: compositionPlan,
  models: [publishAudioModel(model)],
  plan(body) {
    refuseOtherMusicModel(body.model_id);
    return {
      model: body.model_id,
      calls: [
        {
          required: true,
          output: { medium: 'json', format: null },
          quantity: 1,
          unitPriceUsd: model.usd,
          routes: [
            {
              provider: model.provider,
              operation: 'music/plan',
              input: {
                prompt: body.prompt,
                model_id: body.model_id,
                ...(body.music_length_ms !== undefined && {
                  music_length_ms: body.music_length_ms,
                }),
                ...(body.source_composition_plan && {
                  source_composition_plan: body.source_composition_plan,
                }),
              },
            },
          ],
        },
      ],
    };
  },
  present: (job) => z.record(z.string(), z.unknown()).parse(job.outputs[0]?.data),
});
