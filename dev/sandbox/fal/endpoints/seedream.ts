/** ByteDance's Seedream v4 on fal. It has no `output_format`; all images are PNG. */
import { z } from 'zod';
import { atLeastPixels, presetNames, sizePresets, type Size } from '../../media/size.ts';
import { defineEndpoint, type Endpoint, type FalFile } from '../endpoint.ts';
import {
  drawAll,
  editAll,
  imageUrl,
  toMediaInputs,
  numImages,
  prompt,
  seed,
  syncMode,
} from './fields.ts';

/** Limits of the number of pixels, as documented; smaller sizes are scaled up. */
const pixelsMin = 960 * 960;
const pixelsMax = 4096 * 4096;
/** Maximum number of input images that are used, as documented: the last ones. */
const inputsUsedMax = 10;
const autoSizes = {
  auto: { width: 2048, height: 2048 },
  auto_2K: { width: 2048, height: 2048 },
  auto_4K: { width: 4096, height: 4096 },
};
const namedSizes = { ...sizePresets, ...autoSizes };

const dimensions = z
  .object({
    width: z.int().min(1).max(4096).default(512),
    height: z.int().min(1).max(4096).default(512),
  })
  .refine(
    ({ width, height }) => width * height <= pixelsMax,
    'Total pixels must be at most 4096x4096',
  );
const imageSize = z
  .union([dimensions, z.enum([...presetNames, 'auto', 'auto_2K', 'auto_4K'])])
  .default({ width: 2048, height: 2048 });

const shared = {
  prompt: prompt(),
  image_size: imageSize,
  num_images: numImages(6),
  seed,
  sync_mode: syncMode,
};

function parseImageSize(requested: z.output<typeof imageSize>): Size {
  return atLeastPixels(
    typeof requested === 'string' ? namedSizes[requested] : requested,
    pixelsMin,
  );
}

/** Endpoints of Seedream. */
export const seedreamEndpoints: Endpoint[] = [
  defineEndpoint({
    id: 'fal-ai/bytedance/seedream/v4/text-to-image',
    input: z.object(shared),
    run: async (input, context) => {
      const size = parseImageSize(input.image_size);
      const usedSeed = input.seed ?? context.requestSeed;
      const request = { prompt: input.prompt, seed: usedSeed, count: input.num_images, size };
      const media = await drawAll({ ...request, format: 'png' }, context);
      return { media, output: (images: FalFile[]) => ({ images, seed: usedSeed }) };
    },
  }),
  defineEndpoint({
    id: 'fal-ai/bytedance/seedream/v4/edit',
    input: z.object({ ...shared, image_urls: z.array(imageUrl).min(1) }),
    run: async (input, context) => {
      const size = parseImageSize(input.image_size);
      const usedSeed = input.seed ?? context.requestSeed;
      const images = toMediaInputs(input.image_urls.slice(-inputsUsedMax));
      const request = { prompt: input.prompt, seed: usedSeed, count: input.num_images, size };
      const media = await editAll({ ...request, images, format: 'png' }, context);
      return { media, output: (files: FalFile[]) => ({ images: files, seed: usedSeed }) };
    },
  }),
];
