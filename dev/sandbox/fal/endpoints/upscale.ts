/** Image upscalers on fal: Topaz and SeedVR2. Their results have one `image`, for Topaz without its size. */
import { z } from 'zod';
import { defineEndpoint, type Endpoint, type FalFile } from '../endpoint.ts';
import { imageUrl, seed, syncMode } from './fields.ts';
import { toPlainFile } from './films.ts';

const topazModels = [
  'Low Resolution V2',
  'Standard V2',
  'CGI',
  'High Fidelity V2',
  'Text Refine',
  'Recovery',
  'Redefine',
  'Recovery V2',
  'Standard MAX',
  'Wonder',
] as const;
const level = z.number().min(0).max(1).nullish();
/** Height in pixels for each `target_resolution` of SeedVR2. */
const targetHeights = { '720p': 720, '1080p': 1080, '1440p': 1440, '2160p': 2160 };

/** Endpoints of the image upscalers. */
export const upscaleEndpoints: Endpoint[] = [
  defineEndpoint({
    id: 'fal-ai/topaz/upscale/image',
    input: z.object({
      image_url: imageUrl,
      model: z.enum(topazModels).default('Standard V2'),
      upscale_factor: z.number().min(1).max(4).default(2),
      output_format: z.enum(['jpeg', 'png']).default('jpeg'),
      face_enhancement: z.boolean().default(true),
      prompt: z.string().max(1024).nullish(),
      detail: level,
      sharpen: level,
    }),
    run: async (input, { pictures }) => {
      const source = { field: 'image_url', url: input.image_url };
      const options = { factor: input.upscale_factor, format: input.output_format };
      const media = [await pictures.upscale(source, options)];
      return { media, output: ([image]: FalFile[]) => ({ image: toPlainFile(image) }) };
    },
  }),
  defineEndpoint({
    id: 'fal-ai/seedvr/upscale/image',
    input: z.object({
      image_url: imageUrl,
      upscale_mode: z.enum(['target', 'factor']).default('factor'),
      upscale_factor: z.number().min(1).max(10).default(2),
      target_resolution: z.enum(['720p', '1080p', '1440p', '2160p']).default('1080p'),
      output_format: z.enum(['png', 'jpg', 'webp']).default('jpg'),
      seed,
      sync_mode: syncMode,
    }),
    run: async (input, { pictures, requestSeed }) => {
      const source = { field: 'image_url', url: input.image_url };
      const factor =
        input.upscale_mode === 'factor'
          ? input.upscale_factor
          : targetHeights[input.target_resolution] / (await pictures.measure(source)).height;
      const format = input.output_format === 'jpg' ? 'jpeg' : input.output_format;
      const media = [await pictures.upscale(source, { factor, format })];
      const usedSeed = input.seed ?? requestSeed;
      return { media, output: ([image]: FalFile[]) => ({ image, seed: usedSeed }) };
    },
  }),
];
