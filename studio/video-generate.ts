/** POST /studio/video/generate (spec §4.10). It always returns 202, because videos take minutes. */
import { z } from 'zod';
import {
  findModel,
  getMissingDefaults,
  throwIfBoth,
  throwIfUnsupported,
} from '../catalog/model-parameters.ts';
import { buildProviderInput, type Fields } from '../catalog/provider-fields.ts';
import { calculateUnitPrice } from '../catalog/unit-price.ts';
import { videoPriceRules } from '../catalog/price-rules.ts';
import { videoModels, type VideoModel, type VideoRoute } from '../catalog/video-models.ts';
import { assert } from '../domain/errors.ts';
import { defineCapability, type FinishedJob } from './capability.ts';
import type { DraftCall, DraftVariant } from './draft-plan.ts';
import { publishModels } from './published-models.ts';
import { findAspectRatio } from './aspect-ratio.ts';
import { presentVideo, videoData } from './presentation.ts';
import { asyncFlag, mediaUrl, modelId, seedNumber, textField } from './request-fields.ts';
import { buildPictureInputs } from './image-calls.ts';

const request = z.strictObject({
  prompt: textField({ min: 1, max: 5000 }),
  model: modelId(videoModels, 'veo'),
  imageUrl: mediaUrl.optional(),
  referenceUrls: z.array(mediaUrl).min(1).max(30).optional(),
  durationSeconds: z.int().min(1).max(60).optional(),
  aspectRatio: z.string().max(10).optional(),
  resolution: z.string().max(10).optional(),
  generateAudio: z.boolean().optional(),
  seed: seedNumber.optional(),
  negativePrompt: textField({ min: 1, max: 2000 }).optional(),
  async: asyncFlag,
});

type VideoRequest = z.infer<typeof request>;

/** Generates a video from a prompt, a first frame, or reference pictures. */
export const videoGenerate = defineCapability({
  type: 'videoGenerate',
  path: '/studio/video/generate',
  medium: 'video',
  summary: 'Generate a video from a prompt, an image or references',
  request,
  example: { prompt: 'waves at night', model: 'seedance-2.0', durationSeconds: 6 },
  data: videoData,
  models: publishModels(videoModels, {
    parameters: (model) => model.parameters,
    price: videoPriceRules,
  }),
  plan(body) {
    const model = findModel(videoModels, body.model);
    const { id, parameters, determinedByImage = [] } = model;
    throwIfUnsupported({ id, parameters, requireRuleFor: ['imageUrl'] }, body);
    throwIfBoth(body, ['imageUrl', 'referenceUrls'], 'send only one of them');
    for (const field of determinedByImage) {
      throwIfBoth(body, ['imageUrl', field], `the picture determines ${field}`);
    }
    const image =
      body.imageUrl === undefined
        ? []
        : [{ field: 'imageUrl', url: body.imageUrl, medium: 'image' as const }];
    return {
      model: id,
      calls: [planVideo(model, body)],
      inputs: [...image, ...buildPictureInputs('referenceUrls', body.referenceUrls)],
    };
  },
  present: presentGeneratedVideo,
});

function planVideo(model: VideoModel, body: VideoRequest): DraftCall {
  const fields: Fields = { ...body, ...getMissingDefaults(model.parameters, body) };
  const [rule] = videoPriceRules(model);
  const { usd } = calculateUnitPrice(rule, fields);
  const { durationSeconds, generateAudio: hasAudio } = fields;
  assert(typeof durationSeconds === 'number', 'the video model has no default duration');
  return {
    typicalSeconds: model.typicalSeconds,
    meter: 'second',
    quantity: durationSeconds,
    required: true,
    output: {
      medium: 'video',
      format: null,
      expected: { durationSeconds, ...(typeof hasAudio === 'boolean' && { hasAudio }) },
    },
    unitPriceUsd: usd,
    variants: listCheaperVideos(model, usd),
    routes: model.routes.map((route) => ({
      provider: route.provider,
      providerEndpoint: chooseEndpoint(route, body),
      input: buildProviderInput(route, fields),
    })),
  };
}

function chooseEndpoint(route: VideoRoute, body: VideoRequest): string {
  if (body.imageUrl !== undefined) return route.fromImage;
  if (!body.referenceUrls) return route.fromText;
  assert(route.fromReferences, 'the route has no provider endpoint for reference pictures');
  return route.fromReferences;
}

/**
 * Returns the prices of cheaper videos that the provider may deliver instead: without sound, or
 * with fewer pixels.
 */
function listCheaperVideos({ usdPerSecond }: VideoModel, usdMax: number): DraftVariant[] {
  return usdPerSecond
    .filter(({ usd }) => usd < usdMax)
    .map(({ when, usd: unitPriceUsd, pixelsBelow }) => ({
      unitPriceUsd,
      ...(when['generateAudio'] === false && { hasAudio: false }),
      ...(pixelsBelow !== undefined && { pixelsBelow }),
    }));
}

function presentGeneratedVideo(job: FinishedJob): Record<string, unknown> {
  const model = findModel(videoModels, job.model ?? '');
  const fields = { ...job.request, ...getMissingDefaults(model.parameters, job.request) };
  const [video] = job.outputs.at(-1)?.artifacts ?? [];
  return presentVideo(job, {
    prompt: fields['prompt'] ?? null,
    durationSeconds: fields['durationSeconds'] ?? null,
    aspectRatio: fields['aspectRatio'] ?? (video ? findAspectRatio(video) : null),
    resolution: fields['resolution'] ?? null,
    generateAudio: fields['generateAudio'] ?? null,
    seed: fields['seed'] ?? null,
  });
}
