/**
 * POST /studio/music/plan (spec §4.9), whose response has no envelope. Also defines the fields that
 * it shares with music/generate.
 */
import { z } from 'zod';
import { audioModels } from '../models/audio-models.ts';
import { findModel } from '../models/model-parameters.ts';
import { defineCapability } from './capability.ts';
import { publishAudioModel } from '../models/published-models.ts';
import {
  modelId,
  asyncFlag,
  numberField,
  textField,
  fitsIntoPlan,
  tooLongForPlan,
} from './request-fields.ts';

const { limits } = audioModels.music;
const styles = z.array(z.string().min(1).max(500)).max(50).default([]);

const section = z.strictObject({
  section_name: z.string().min(1).max(100),
  positive_local_styles: styles,
  negative_local_styles: styles,
  duration_ms: numberField(limits.sectionDurationMs).int(),
  lines: z.array(z.string().max(200)).max(30).default([]),
});

/** Schema of a composition plan, as music/plan returns it. */
export const compositionPlan = z
  .strictObject({
    positive_global_styles: styles,
    negative_global_styles: styles,
    sections: z.array(section).min(1).max(100),
  })
  .refine(fitsIntoPlan, { error: tooLongForPlan, abort: true })
  .refine((plan) => sumDurationMs(plan) <= limits.durationSeconds.max * 1000, {
    error: `must last at most ${limits.durationSeconds.max} seconds in all`,
  })
  .meta({ id: 'CompositionPlan' });

export type CompositionPlan = z.infer<typeof compositionPlan>;

/** Returns the total duration of the sections in milliseconds. */
export function sumDurationMs(plan: { sections: readonly { duration_ms: number }[] }): number {
  return plan.sections.reduce((sum, part) => sum + part.duration_ms, 0);
}

/** Schema of the field `model_id`; there is only one music model. */
export const musicModelId = modelId([audioModels.music], audioModels.music.id);

const model = audioModels.musicPlan;

const request = z.strictObject({
  prompt: textField(model.limits.prompt),
  music_length_ms: numberField(model.limits.music_length_ms).int().optional(),
  source_composition_plan: compositionPlan.optional(),
  model_id: musicModelId,
  async: asyncFlag,
});

/** Generates a composition plan, which can be sent to music/generate as `composition_plan`. */
export const musicPlan = defineCapability({
  type: 'musicPlan',
  path: '/studio/music/plan',
  medium: 'audio',
  envelope: 'bare',
  summary: 'Write a composition plan for a song',
  request,
  takes: { prompt: ['text'], source_composition_plan: ['compositionPlan'] },
  yields: { output: 'compositionPlan', texts: [] },
  example: { prompt: 'a calm song about the sea', music_length_ms: 30_000 },
  data: compositionPlan,
  models: [publishAudioModel(model)],
  plan(body) {
    findModel([audioModels.music], body.model_id, 'model_id');
    return {
      model: body.model_id,
      calls: [
        {
          required: true,
          output: { medium: 'json', format: null },
          ...(body.music_length_ms !== undefined && {
            planned: { durationSeconds: body.music_length_ms / 1000 },
          }),
          quantity: 1,
          unitPriceUsd: model.usd,
          routes: [
            {
              provider: model.provider,
              providerEndpoint: 'music/plan',
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
