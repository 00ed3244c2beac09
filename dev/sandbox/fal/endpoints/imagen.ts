/** Google's Imagen 4 on fal. */
import { z } from 'zod';
import { calculateSize } from '../../media/size.ts';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import {
  drawAll,
  numImages,
  outputFormat,
  prompt,
  safetyTolerance,
  seed,
  syncMode,
} from './fields.ts';

const input = z.object({
  prompt: prompt(),
  aspect_ratio: z.enum(['1:1', '16:9', '9:16', '4:3', '3:4']).default('1:1'),
  num_images: numImages(4),
  resolution: z.enum(['1K', '2K']).default('1K'),
  output_format: outputFormat,
  safety_tolerance: safetyTolerance,
  seed,
  sync_mode: syncMode,
});

/** Endpoints of Imagen. */
export const imagenEndpoints: Endpoint[] = [
  'fal-ai/imagen4/preview',
  'fal-ai/imagen4/preview/ultra',
].map((id) =>
  defineEndpoint({
    id,
    input,
    run: async (body, context) => {
      const size = calculateSize(body.aspect_ratio, body.resolution);
      const { num_images: count, output_format: format } = body;
      const media = await drawAll({ ...body, count, size, format }, context);
      return { media, output: (images) => ({ images, description: '' }) };
    },
  }),
);
