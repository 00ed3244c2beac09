/** POST /studio/image/remove-background (spec §4.7). */
import { z } from 'zod';
import { backgroundRemovers } from '../models/image-tools.ts';
import { removalPriceRules } from '../models/price-rules.ts';
import { defineCapability } from './capability.ts';
import { publishModels } from '../models/published-models.ts';
import { isPersisted, presentPicture, pictureToolData } from './presentation.ts';
import { asyncFlag, mediaUrl, modelId } from './request-fields.ts';
import { findModel, throwIfUnsupported } from '../models/model-parameters.ts';
import { planRemoval } from './picture-tools.ts';

const request = z.strictObject({
  imageUrl: mediaUrl,
  model: modelId(backgroundRemovers, 'General Use (Light)'),
  operatingResolution: z
    .string()
    .max(16)
    .default('1024x1024')
    .meta({ enum: backgroundRemovers[0]?.parameters['operatingResolution']?.oneOf }),
  refineForeground: z.boolean().default(true),
  persistToStorage: z.boolean().default(false),
  async: asyncFlag,
});

/** Removes the background of a picture. */
export const imageRemoveBackground = defineCapability({
  type: 'imageRemoveBackground',
  path: '/studio/image/remove-background',
  medium: 'image',
  summary: 'Make the background of an image transparent',
  request,
  takes: { imageUrl: ['image'] },
  example: { imageUrl: 'https://example.com/portrait.png' },
  data: pictureToolData.extend({ operatingResolution: z.string() }),
  models: publishModels(backgroundRemovers, {
    parameters: (model) => model.parameters,
    price: (model) => removalPriceRules(model),
  }),
  plan(body) {
    const model = findModel(backgroundRemovers, body.model);
    throwIfUnsupported(model, body);
    const source = { field: 'imageUrl', url: body.imageUrl, medium: 'image' } as const;
    const { imageUrl: _, ...fields } = body;
    return {
      model: model.id,
      calls: [planRemoval(model, fields, source)],
      inputs: [source],
    };
  },
  persistsResult: isPersisted,
  present: (job) => ({
    ...presentPicture(job),
    operatingResolution: job.request['operatingResolution'],
  }),
});
