/** xAI's Grok Imagine on fal. */
import { z } from 'zod';
import { withoutMarkers } from '../../faults.ts';
import { calculateSize } from '../../media/size.ts';
import { defineEndpoint, type Endpoint } from '../endpoint.ts';
import { drawAll, numImages, prompt, syncMode } from './fields.ts';

const ratios = [
  '2:1',
  '20:9',
  '19.5:9',
  '16:9',
  '4:3',
  '3:2',
  '1:1',
  '2:3',
  '3:4',
  '9:16',
  '9:19.5',
  '9:20',
  '1:2',
] as const;

/** Endpoints of Grok Imagine. */
export const grokEndpoints: Endpoint[] = [
  defineEndpoint({
    id: 'xai/grok-imagine-image',
    input: z.object({
      prompt: prompt(8000),
      aspect_ratio: z.enum(['auto', ...ratios]).default('1:1'),
      num_images: numImages(4),
      // fal's types and xAI's documentation use different case, so both are accepted.
      resolution: z.enum(['1K', '2K', '4K', '1k', '2k']).default('1K'),
      output_format: z.enum(['jpeg', 'png', 'webp']).default('jpeg'),
      sync_mode: syncMode,
    }),
    run: async (input, context) => {
      const aspect = input.aspect_ratio === 'auto' ? '1:1' : input.aspect_ratio;
      const size = calculateSize(aspect, input.resolution);
      const { num_images: count, output_format: format } = input;
      const media = await drawAll({ prompt: input.prompt, count, size, format }, context);
      const revised = `${withoutMarkers(input.prompt)} (revised)`;
      return { media, output: (images) => ({ images, revised_prompt: revised }) };
    },
  }),
];
