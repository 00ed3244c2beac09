/** POST /studio/image/edit (spec §4.7). */
import { z } from 'zod';
import { editModels } from '../models/image-models.ts';
import { imagePriceRules } from '../models/price-rules.ts';
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
} from './request-fields.ts';
import { buildPictureInputs, planImageCalls, throwIfTransparentJpeg } from './image-calls.ts';
import { fieldError } from '../../domain/errors.ts';
import { findModel, throwIfUnsupported } from '../models/model-parameters.ts';

const request = z.strictObject({
  prompt: promptText,
  imageUrls: mediaUrls,
  model: modelId(editModels, 'nano-banana'),
  numImages: imageCount.optional(),
  outputFormat: z.enum(imageFormats).optional(),
  seed: seedNumber.optional(),
  quality: z
    .enum(['low', 'medium', 'high'])
    .optional()
    .meta({ description: 'A higher quality adds detail, and takes longer.' }),
  background: z.enum(['auto', 'transparent', 'opaque']).optional(),
  maskUrl: mediaUrl.optional().meta({
    description:
      'Picture with the aspect ratio of the first image, seen upright. Edited is the white area; if the mask has transparent pixels, the transparent area.',
  }),
  maskArea: z
    .enum(['white', 'transparent'])
    .optional()
    .meta({ description: 'Area of the mask that is edited, instead of what its pixels decide.' }),
  async: asyncFlag,
});

/** Edits pictures according to a prompt; with a mask, only the area inside the mask. */
export const imageEdit = defineCapability({
  type: 'imageEdit',
  path: '/studio/image/edit',
  medium: 'image',
  summary: 'Edit images with a prompt',
  request,
  takes: { imageUrls: ['image'], maskUrl: ['image'], prompt: ['text'] },
  example: { prompt: 'add a red hat', imageUrls: ['https://example.com/portrait.png'] },
  data: imagesData,
  models: publishModels(editModels, {
    parameters: (model) => model.edit ?? {},
    price: (model) => imagePriceRules(model.price, model.edit ?? {}),
  }),
  plan(body) {
    const model = findModel(editModels, body.model);
    const parameters = model.edit ?? {};
    throwIfUnsupported({ id: model.id, parameters }, body);
    throwIfTransparentJpeg(body);
    if (body.maskArea !== undefined && body.maskUrl === undefined) {
      throw fieldError('INVALID_REQUEST', 'maskArea', 'must be absent without maskUrl');
    }
    const mask =
      body.maskUrl === undefined
        ? []
        : [{ field: 'maskUrl', url: body.maskUrl, medium: 'image' as const }];
    return {
      model: model.id,
      calls: planImageCalls(model, parameters, body),
      inputs: [...buildPictureInputs('imageUrls', body.imageUrls), ...mask],
    };
  },
  present: presentImages,
});
