/** POST /studio/image/generate (spec §4.7). */
import { z } from 'zod';
import { imageModels } from '../catalog/image-models.ts';
import {
  findImageModel,
  imagePriceUsd,
  type ImageModel,
  type ImageRoute,
} from '../catalog/image-model.ts';
import { imageSizeNames } from '../catalog/image-sizes.ts';
import { GatewayError } from '../domain/errors.ts';
import type { Json, JsonObject } from '../domain/json.ts';
import { defineCapability, type DraftCall } from './capability.ts';
import { imageFormats, modelId, pictureUrl, promptText, seedNumber } from './image-fields.ts';
import { imagesData, presentImages } from './image-presentation.ts';
import { refuseUnsupported } from './image-parameters.ts';

const customSize = z.strictObject({
  width: z.int().min(16).max(3840).multipleOf(16),
  height: z.int().min(16).max(3840).multipleOf(16),
});
const pixels = z.int().min(1024).max(4096);

const request = z.strictObject({
  prompt: promptText,
  model: modelId(imageModels, 'nano-banana'),
  numImages: z.int().min(1).max(10).optional(),
  aspectRatio: z.string().max(10).optional(),
  outputFormat: z.enum(imageFormats).optional(),
  resolution: z.enum(['1K', '2K', '4K']).optional(),
  width: pixels.optional(),
  height: pixels.optional(),
  seed: seedNumber.optional(),
  negativePrompt: z.string().min(1).max(2000).optional(),
  quality: z.enum(['auto', 'low', 'medium', 'high']).optional(),
  background: z.enum(['auto', 'transparent', 'opaque']).optional(),
  imageSize: z.union([z.enum(imageSizeNames), customSize]).optional(),
  imageUrls: z
    .union([pictureUrl.transform((url) => [url]), z.array(pictureUrl).min(1).max(10)])
    .optional(),
  async: z.boolean().optional(),
});

type ImageGenerateRequest = z.infer<typeof request>;

/** Draws images from a prompt, optionally after reference images. */
export const imageGenerate = defineCapability({
  type: 'imageGenerate',
  path: '/studio/image/generate',
  scope: 'studio:image',
  medium: 'image',
  summary: 'Draw images from a prompt',
  request,
  example: { prompt: 'a lighthouse at dawn', aspectRatio: '16:9' },
  data: imagesData,
  plan(body) {
    const model = findImageModel(imageModels, body.model);
    refuseUnsupported(model, body);
    return {
      model: model.id,
      calls: planCalls(model, body),
      inputs: (body.imageUrls ?? []).map((url, index) => ({
        field: `imageUrls.${index}`,
        url,
        medium: 'image' as const,
      })),
      async: body.async ?? false,
    };
  },
  present: presentImages,
});

/** Splits the wanted images into calls that the upstream takes, with distinct seeds. */
function planCalls(model: ImageModel, body: ImageGenerateRequest): DraftCall[] {
  const wanted = body.numImages ?? 1;
  const perCall = Math.min(...model.routes.map((route) => route.imagesPerCallMax));
  const unitPriceUsd = imagePriceUsd(model.price, body);
  const calls: DraftCall[] = [];
  for (let first = 0; first < wanted; first += perCall) {
    const quantity = Math.min(perCall, wanted - first);
    calls.push({
      quantity,
      unitPriceUsd,
      required: false,
      output: { medium: 'image', format: body.outputFormat ?? null },
      routes: model.routes.map((route) => ({
        provider: route.provider,
        operation: operationOf(route, body),
        input: upstreamInput(route, { ...body, numImages: quantity }, first),
      })),
    });
  }
  return calls;
}

function operationOf(route: ImageRoute, body: ImageGenerateRequest): string {
  if (!body.imageUrls) return route.generate;
  if (route.edit) return route.edit;
  throw new GatewayError('UNSUPPORTED_PARAMETER', 'this model takes no reference images', {
    details: [{ path: 'imageUrls', message: 'not taken by this model' }],
  });
}

/** Fields that steer the gateway, not the upstream. */
const ownFields = new Set(['model', 'async', 'width', 'height', 'negativePrompt']);

/** The request in the provider's words: the route's maps are data, this is their only reader. */
function upstreamInput(
  route: ImageRoute,
  body: ImageGenerateRequest,
  firstImage: number,
): JsonObject {
  const size =
    body.width !== undefined || body.height !== undefined
      ? { width: body.width ?? body.height ?? 0, height: body.height ?? body.width ?? 0 }
      : undefined;
  const fields: Record<string, Json | undefined> = {
    ...body,
    size,
    imageSize: body.imageSize ?? (route.rename['imageSize'] ? 'landscape_4_3' : undefined),
    // Calls of one request draw different images, repeatably.
    seed: body.seed === undefined ? undefined : (body.seed + firstImage) % 2_147_483_648,
  };
  const input: JsonObject = {};
  for (const [field, value] of Object.entries(fields)) {
    if (value === undefined || ownFields.has(field) || route.drop?.includes(field)) continue;
    const word = typeof value === 'string' ? value : '';
    if (field === 'outputFormat' && !route.nativeFormats.includes(word)) continue;
    if (route.omit?.[field]?.includes(word)) continue;
    input[upstreamName(route, field)] = route.values?.[field]?.[word] ?? value;
  }
  if (body.negativePrompt) {
    if (route.negativePrompt === 'sentence') {
      input['prompt'] = `${body.prompt}\n\nDo not show: ${body.negativePrompt}`;
    } else input['negative_prompt'] = body.negativePrompt;
  }
  return input;
}

function upstreamName(route: ImageRoute, field: string): string {
  return route.rename[field] ?? (field === 'numImages' ? 'num_images' : field);
}
