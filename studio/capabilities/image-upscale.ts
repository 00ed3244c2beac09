/** POST /studio/image/upscale (spec §4.7). */
import { z } from 'zod';
import { upscalers } from '../models/image-tools.ts';
import { findModel, getMissingDefaults, throwIfUnsupported } from '../models/model-parameters.ts';
import { upscalePriceRules } from '../models/price-rules.ts';
import { defineCapability, type FinishedJob } from './capability.ts';
import { publishModels } from '../models/published-models.ts';
import { isPersisted, presentPicture, pictureToolData } from './presentation.ts';
import { asyncFlag, mediaUrl, modelId, scaleChoice } from './request-fields.ts';
import { planUpscale } from './picture-tools.ts';

const request = z.strictObject({
  imageUrl: mediaUrl,
  scaleFactor: scaleChoice.optional(),
  service: modelId(upscalers, 'service_a'),
  model: z.string().max(64).optional().meta({ enum: upscalers[0]?.parameters['model']?.oneOf }),
  faceEnhancement: z.boolean().optional(),
  persistToStorage: z.boolean().default(false),
  async: asyncFlag,
});

/** Upscales a picture. */
export const imageUpscale = defineCapability({
  type: 'imageUpscale',
  path: '/studio/image/upscale',
  medium: 'image',
  summary: 'Upscale an image',
  request,
  takes: { imageUrl: ['image'] },
  example: { imageUrl: 'https://example.com/small.png', scaleFactor: 4 },
  data: pictureToolData.extend({ service: z.string(), scaleFactor: z.int() }),
  models: publishModels(upscalers, {
    selectedBy: ({ id }) => ({ service: id }),
    parameters: (service) => service.parameters,
    price: (service) => upscalePriceRules(service),
  }),
  plan(body) {
    const service = findModel(upscalers, body.service, 'service');
    const { id, parameters } = service;
    throwIfUnsupported({ id, parameters, requireRuleFor: ['model'] }, body);
    const source = { field: 'imageUrl', url: body.imageUrl, medium: 'image' } as const;
    const { imageUrl: _, ...fields } = body;
    return {
      model: id,
      calls: planUpscale(service, { fields, source }),
      inputs: [source],
    };
  },
  persistsResult: isPersisted,
  present: presentUpscaled,
});

function presentUpscaled(job: FinishedJob): Record<string, unknown> {
  const service = findModel(upscalers, job.model ?? '', 'service');
  const fields = { ...getMissingDefaults(service.parameters, job.request), ...job.request };
  return {
    ...presentPicture(job),
    service: service.id,
    model: fields['model'] ?? null,
    scaleFactor: fields['scaleFactor'],
  };
}
