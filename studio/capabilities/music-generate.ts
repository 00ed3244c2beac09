/** POST /studio/music/generate (spec §4.9): a song; in full mode also cover art and lyrics. */
import { z } from 'zod';
import { audioModels } from '../models/audio-models.ts';
import { findModel, findPixelsMax } from '../models/model-parameters.ts';
import { imageModels } from '../models/image-models.ts';
import { calculateUnitPrice, audioPriceRules, coverPriceRules } from '../models/price-rules.ts';
import { fieldError, fieldsError, GatewayError, assert } from '../../domain/errors.ts';
import type { JsonObject } from '../../domain/json.ts';
import { contentCredentials } from '../../domain/job-record.ts';
import { defineCapability } from './capability.ts';
import type { DraftCall } from '../../domain/draft-plan.ts';
import { publishAudioModel } from '../models/published-models.ts';
import { presentFile, storedFileData, getRecording } from './presentation.ts';
import { asyncFlag, numberField, textField } from './request-fields.ts';
import {
  compositionPlan,
  sumDurationMs,
  musicModelId,
  type CompositionPlan,
} from './music-plan.ts';

const model = audioModels.music;
const { limits } = model;

const fields = z.strictObject({
  prompt: textField(limits.prompt).optional(),
  composition_plan: compositionPlan.optional(),
  plan: compositionPlan.optional().meta({ description: 'Alias of `composition_plan`.' }),
  durationSeconds: numberField(limits.durationSeconds).optional().meta({
    description:
      'Duration in seconds of a song that is generated from a prompt; defaults to 30. A composition plan has its own duration.',
  }),
  coverPrompt: textField(limits.coverPrompt).optional(),
  force_instrumental: z.boolean().default(false),
  model_id: musicModelId,
  mode: z
    .enum(['full', 'audio-only'])
    .default('full')
    .meta({ description: 'full adds a cover picture, and the title and lyrics of the song.' }),
  async: asyncFlag,
});

/** Renames `plan` to `composition_plan`, so that a job stores the plan once. */
const request = fields.transform(({ plan, ...body }) => {
  if (
    plan &&
    body.composition_plan &&
    JSON.stringify(plan) !== JSON.stringify(body.composition_plan)
  ) {
    const message = 'plan is another name of composition_plan; their values must be equal';
    throw fieldsError('CONFLICTING_FIELDS', ['composition_plan', 'plan'], message);
  }
  const requestedPlan = body.composition_plan ?? plan;
  return { ...body, ...(requestedPlan && { composition_plan: requestedPlan }) };
});

type MusicRequest = z.output<typeof request>;

/** Data that the provider returns in addition to the audio in full mode. */
const songDetails = z
  .object({ title: z.string().nullable(), lyrics: z.string().nullable() })
  .nullable();

/** Generates a song. */
export const musicGenerate = defineCapability({
  type: 'musicGenerate',
  path: '/studio/music/generate',
  medium: 'audio',
  summary: 'Generate a song from a prompt or a composition plan',
  request,
  takes: {
    prompt: ['text'],
    coverPrompt: ['text'],
    composition_plan: ['compositionPlan'],
    plan: ['compositionPlan'],
  },
  yields: { output: 'audio', texts: ['title', 'lyrics'] },
  example: { prompt: 'a calm song about the sea', durationSeconds: 20 },
  data: z.object({
    ...storedFileData,
    duration: z.int().meta({ description: 'Duration of the song in milliseconds.' }),
    title: z.string().nullable(),
    model: z.string(),
    coverUrl: z.url().nullable().optional(),
    coverContentCredentials: contentCredentials.optional(),
    coverError: z
      .object({ code: z.string(), message: z.string() })
      .optional()
      .meta({ description: 'Reason why the cover is missing. A missing cover is not charged.' }),
    lyrics: z.string().nullable().optional(),
  }),
  models: [
    {
      ...publishAudioModel(model),
      parameters: {
        durationSeconds: {
          min: limits.durationSeconds.min,
          max: limits.durationSeconds.max,
          default: limits.durationSeconds.default,
        },
        mode: { oneOf: ['full', 'audio-only'], default: 'full' },
      },
      price: [
        ...audioPriceRules(model, {
          of: 'durationSeconds',
          default: limits.durationSeconds.default,
        }),
        ...coverPriceRules(findModel(imageModels, 'nano-banana').price),
      ],
    },
  ],
  plan(body) {
    findModel([model], body.model_id, 'model_id');
    throwIfConflicting(body);
    return {
      model: body.model_id,
      calls: [planSong(body), ...(body.mode === 'full' ? [planCover(body)] : [])],
    };
  },
  present(job) {
    const [song, cover] = job.outputs;
    const recording = getRecording(job, song);
    const details = songDetails.parse(song?.data ?? null);
    const [picture] = cover?.artifacts ?? [];
    return {
      ...presentFile(job, recording),
      duration: Math.round((recording.durationSeconds ?? 0) * 1000),
      title: details?.title ?? null,
      model: job.model,
      ...(cover && {
        coverUrl: picture ? job.urlOf(picture) : null,
        ...(picture && { coverContentCredentials: picture.contentCredentials }),
        ...(!picture && cover.error && { coverError: cover.error }),
        lyrics: details?.lyrics ?? null,
      }),
    };
  },
});

/**
 * Throws if fields of the request contradict each other.
 * @throws GatewayError INVALID_REQUEST, CONFLICTING_FIELDS, UNSUPPORTED_PARAMETER; the details name
 * the fields
 */
function throwIfConflicting(body: MusicRequest): void {
  const plan = body.composition_plan;
  if (!plan && body.prompt === undefined) {
    const message = 'is required unless composition_plan is present';
    throw fieldError('INVALID_REQUEST', 'prompt', message);
  }
  if (plan && body.force_instrumental) {
    const message =
      'force_instrumental requires a prompt; for an instrumental plan, omit the lines of its sections';
    throw fieldsError('CONFLICTING_FIELDS', ['force_instrumental', 'composition_plan'], message);
  }
  if (plan && body.durationSeconds !== undefined) {
    if (Math.round(body.durationSeconds * 1000) !== sumDurationMs(plan)) {
      const message = 'durationSeconds must equal the total duration of the plan';
      throw fieldsError('CONFLICTING_FIELDS', ['durationSeconds', 'composition_plan'], message);
    }
  }
  if (body.mode === 'audio-only' && body.coverPrompt !== undefined) {
    throw new GatewayError('UNSUPPORTED_PARAMETER', 'mode audio-only generates no cover', {
      details: [{ path: 'coverPrompt', message: 'only supported if mode is full' }],
    });
  }
}

function planSong(body: MusicRequest): DraftCall {
  const plan = body.composition_plan;
  const requestedMs = Math.round((body.durationSeconds ?? limits.durationSeconds.default) * 1000);
  const durationMs = plan ? sumDurationMs(plan) : requestedMs;
  const content: JsonObject = plan
    ? { composition_plan: plan }
    : {
        prompt: body.prompt ?? '',
        music_length_ms: durationMs,
        force_instrumental: body.force_instrumental,
      };
  return {
    required: true,
    output: { medium: 'audio', format: null, expected: { durationSeconds: durationMs / 1000 } },
    meter: 'second',
    quantity: Math.ceil(durationMs / 1000),
    unitPriceUsd: model.usd,
    routes: [
      {
        provider: model.provider,
        providerEndpoint: body.mode === 'full' ? 'music/detailed' : 'music',
        input: { ...content, model_id: body.model_id },
      },
    ],
  };
}

/**
 * Plans the call that generates the cover with the default image model. If this call fails, the job
 * still succeeds.
 */
function planCover(body: MusicRequest): DraftCall {
  const imageModel = findModel(imageModels, 'nano-banana');
  const [route] = imageModel.routes;
  assert(route, 'the default image model has no route');
  return {
    required: false,
    output: { medium: 'image', format: 'jpeg', model: imageModel.id },
    planned: { pixelsMax: findPixelsMax(imageModel.pixelsMax, undefined) },
    quantity: 1,
    unitPriceUsd: calculateUnitPrice(coverPriceRules(imageModel.price)[0], { mode: 'full' }).usd,
    routes: [
      {
        provider: route.provider,
        providerEndpoint: route.generate,
        input: {
          prompt: body.coverPrompt ?? buildCoverPrompt(body),
          num_images: 1,
          aspect_ratio: '1:1',
          output_format: 'jpeg',
        },
      },
    ],
  };
}

const coverPromptMax = 2000;

function buildCoverPrompt(body: MusicRequest): string {
  const musicDescription = body.composition_plan
    ? describeStyles(body.composition_plan)
    : (body.prompt ?? '');
  const prompt = `Square album cover, no lettering, for this music: ${musicDescription}`;
  return Array.from(prompt).slice(0, coverPromptMax).join('');
}

function describeStyles(plan: CompositionPlan): string {
  const styles = plan.positive_global_styles.join(', ');
  return styles || plan.sections.map((part) => part.section_name).join(', ');
}
