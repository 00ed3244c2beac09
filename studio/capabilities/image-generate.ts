/** POST /studio/image/generate (spec §4.7). */
import { z } from 'zod';
import { imageSizes } from '../models/image-model.ts';
import { imageModels } from '../models/image-models.ts';
import { imagePriceRules } from '../models/price-rules.ts';
import { keysOf } from '../../domain/json.ts';
import { defineCapability } from './capability.ts';
import { publishModels } from '../models/published-models.ts';
import { imagesData, presentImages } from './presentation.ts';
import {
  asyncFlag,
  imageCount,
  imageFormats,
  mediaUrl,
  mediaUrls,
  modelId,
  promptText,
  seedNumber,
  textField,
} from './request-fields.ts';
import { buildPictureInputs, planImageCalls, throwIfTransparentJpeg } from './image-calls.ts';
import { findModel, throwIfUnsupported } from '../models/model-parameters.ts';

const customEdge = z.int().min(16).max(3840).multipleOf(16);
const customSize = z.strictObject({ width: customEdge, height: customEdge });
const dimension = z.int().min(1024).max(4096);

const request = z.strictObject({
  prompt: promptText,
  model: modelId(imageModels, 'nano-banana'),
  numImages: imageCount.optional(),
  aspectRatio: z.string().max(10).optional(),
  outputFormat: z.enum(imageFormats).optional(),
  resolution: z.enum(['1K', '2K', '4K']).optional(),
  width: dimension.optional(),
  height: dimension.optional(),
  seed: seedNumber.optional(),
  negativePrompt: textField({ min: 1, max: 2000 }).optional(),
  quality: z
    .enum(['auto', 'low', 'medium', 'high'])
    .optional()
    .meta({ description: 'A higher quality adds detail, and takes longer.' }),
  background: z.enum(['auto', 'transparent', 'opaque']).optional(),
  imageSize: z
    .union([z.enum(keysOf(imageSizes)), customSize], {
      error: `must be one of ${keysOf(imageSizes).join(', ')}, or {"width": …, "height": …}`,
    })
    .optional(),
  imageUrls: z
    .union([mediaUrl.transform((url) => [url]), mediaUrls], {
      error:
        'must be one input or a list of 1 to 10 inputs; an input is an http(s) URL or the id of an uploaded file',
    })
    .optional(),
  async: asyncFlag,
});

/** Generates images from a prompt and optional reference images. */
export const imageGenerate = defineCapability({
  type: 'imageGenerate',
  path: '/studio/image/generate',
  medium: 'image',
  summary: 'Generate images from a prompt',
  request,
  takes: { imageUrls: ['image'], prompt: ['text'], negativePrompt: ['text'] },
  example: { prompt: 'a lighthouse at dawn', numImages: 2 },
  data: imagesData,
  models: publishModels(imageModels, {
    parameters: (model) => model.generate,
    price: (model) => imagePriceRules(model.price, model.generate),
  }),
  plan(body) {
    const model = findModel(imageModels, body.model);
    const { id, generate: parameters } = model;
    throwIfUnsupported({ id, parameters, requireRuleFor: ['imageUrls'] }, body);
    throwIfTransparentJpeg(body);
    return {
      model: id,
      calls: planImageCalls(model, parameters, body),
      inputs: buildPictureInputs('imageUrls', body.imageUrls),
    };
  },
  present: presentImages,
});
