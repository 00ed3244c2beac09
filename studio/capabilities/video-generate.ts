/** POST /studio/video/generate (spec §4.10). It always returns 202, because videos take minutes. */
import { z } from 'zod';
import {
  findModel,
  findPixelsMax,
  getMissingDefaults,
  throwIfBoth,
  throwIfUnsupported,
  buildProviderInput,
  type Fields,
} from '../models/model-parameters.ts';
import { calculateUnitPrice, videoPriceRules } from '../models/price-rules.ts';
import { videoModels, type VideoModel, type VideoRoute } from '../models/video-models.ts';
import { assert, fieldError } from '../../domain/errors.ts';
import { defineCapability, type FinishedJob } from './capability.ts';
import type { DraftCall, DraftVariant } from '../../domain/draft-plan.ts';
import { publishModels } from '../models/published-models.ts';
import { findAspectRatio, buildPictureInputs } from './image-calls.ts';
import { presentVideo, videoData } from './presentation.ts';
import { asyncFlag, mediaUrl, modelId, seedNumber, textField } from './request-fields.ts';

const request = z.strictObject({
  prompt: textField({ min: 1, max: 5000 }),
  model: modelId(videoModels, 'veo'),
  imageUrl: mediaUrl.optional(),
  endImageUrl: mediaUrl.optional(),
  referenceUrls: z.array(mediaUrl).min(1).max(30).optional(),
  durationSeconds: z.int().min(1).max(60).optional(),
  aspectRatio: z.string().max(10).optional(),
  resolution: z.string().max(10).optional(),
  generateAudio: z.boolean().optional().meta({ description: 'Adds sound to the video.' }),
  seed: seedNumber.optional(),
  negativePrompt: textField({ min: 1, max: 2000 }).optional(),
  async: asyncFlag,
});

type VideoRequest = z.infer<typeof request>;

/** Generates a video from a prompt, a first and a last frame, or reference pictures. */
export const videoGenerate = defineCapability({
  type: 'videoGenerate',
  path: '/studio/video/generate',
  medium: 'video',
  summary: 'Generate a video from a prompt, an image or references',
  request,
  takes: {
    imageUrl: ['image'],
    endImageUrl: ['image'],
    referenceUrls: ['image'],
    prompt: ['text'],
    negativePrompt: ['text'],
  },
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
    if (body.endImageUrl !== undefined && body.imageUrl === undefined) {
      throw fieldError('INVALID_REQUEST', 'imageUrl', 'is required with endImageUrl');
    }
    for (const field of determinedByImage) {
      throwIfBoth(body, ['imageUrl', field], `the picture determines ${field}`);
    }
    const frames = (['imageUrl', 'endImageUrl'] as const).flatMap((field) => {
      const url = body[field];
      return url === undefined ? [] : [{ field, url, medium: 'image' as const }];
    });
    return {
      model: id,
      calls: [planVideo(model, body)],
      inputs: [...frames, ...buildPictureInputs('referenceUrls', body.referenceUrls)],
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
    planned: { pixelsMax: findPixelsMax(model.pixelsMax, fields['resolution']) },
    unitPriceUsd: usd,
    variants: listCheaperVideos(model, usd),
    routes: model.routes.map((route) => ({
      provider: route.provider,
      ...buildRouteInput(route, body, fields),
    })),
  };
}

/** Returns the provider endpoint for the pictures of a request, and its input. */
function buildRouteInput(route: VideoRoute, body: VideoRequest, fields: Fields) {
  const { fromBothFrames, fromReferences } = route;
  if (body.endImageUrl !== undefined && fromBothFrames) {
    const { providerEndpoint, rename } = fromBothFrames;
    const map = { ...route, rename: { ...route.rename, ...rename } };
    return { providerEndpoint, input: buildProviderInput(map, fields) };
  }
  const input = buildProviderInput(route, fields);
  if (body.imageUrl !== undefined) return { providerEndpoint: route.fromImage, input };
  if (!body.referenceUrls) return { providerEndpoint: route.fromText, input };
  assert(fromReferences, 'the route has no provider endpoint for reference pictures');
  return { providerEndpoint: fromReferences, input };
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
