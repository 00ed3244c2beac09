/** Gemini's image models on fal: nano-banana, nano-banana-pro and gemini-3.1-flash-image. */
import { z } from 'zod';
import type { PictureFormat } from '../../media/draw.ts';
import type { Media } from '../../media/media.ts';
import { calculateSize } from '../../media/size.ts';
import {
  defineEndpoint,
  type Endpoint,
  type FalFile,
  type GenerationContext,
} from '../endpoint.ts';
import {
  aspectRatios,
  drawAll,
  editAll,
  imageUrls,
  toMediaInputs,
  numImages,
  outputFormat,
  prompt,
  safetyTolerance,
  seed,
  matchInputSize,
  syncMode,
} from './fields.ts';

const shared = {
  prompt: prompt(),
  num_images: numImages(4),
  output_format: outputFormat,
  safety_tolerance: safetyTolerance,
  seed,
  sync_mode: syncMode,
};
const pro = { enable_web_search: z.boolean().optional() };
const resolution = z.enum(['1K', '2K', '4K']).default('1K');
const flash = {
  ...pro,
  resolution: z.enum(['0.5K', '1K', '2K', '4K']).default('1K'),
};
const auto = z.enum(['auto', ...aspectRatios]);
const wide = z.enum(['auto', ...aspectRatios, '4:1', '1:4', '8:1', '1:8']);

interface NanoBananaInput {
  prompt: string;
  num_images: number;
  output_format: PictureFormat;
  aspect_ratio: string;
  seed?: number | null | undefined;
  resolution?: string | undefined;
}

const buildResult = (media: Media[]) => ({
  media,
  output: (images: FalFile[]) => ({ images, description: '' }),
});

async function generate(input: NanoBananaInput, context: GenerationContext) {
  const aspect = input.aspect_ratio === 'auto' ? '1:1' : input.aspect_ratio;
  const size = calculateSize(aspect, input.resolution);
  const { num_images: count, output_format: format } = input;
  return buildResult(await drawAll({ ...input, count, size, format }, context));
}

async function edit(input: NanoBananaInput & { image_urls: string[] }, context: GenerationContext) {
  const images = toMediaInputs(input.image_urls);
  const size =
    input.aspect_ratio === 'auto'
      ? await matchInputSize(context, images[0], input.resolution)
      : calculateSize(input.aspect_ratio, input.resolution);
  const { num_images: count, output_format: format } = input;
  return buildResult(await editAll({ ...input, images, count, size, format }, context));
}

/** Endpoints of Gemini's image models. */
export const nanoBananaEndpoints: Endpoint[] = [
  defineEndpoint({
    id: 'fal-ai/nano-banana',
    input: z.object({ ...shared, aspect_ratio: z.enum(aspectRatios).default('1:1') }),
    run: generate,
  }),
  defineEndpoint({
    id: 'fal-ai/nano-banana/edit',
    input: z.object({ ...shared, aspect_ratio: auto.default('auto'), image_urls: imageUrls() }),
    run: edit,
  }),
  defineEndpoint({
    id: 'fal-ai/nano-banana-pro',
    input: z.object({ ...shared, ...pro, resolution, aspect_ratio: auto.default('1:1') }),
    run: generate,
  }),
  defineEndpoint({
    id: 'fal-ai/nano-banana-pro/edit',
    input: z.object({
      ...shared,
      ...pro,
      resolution,
      aspect_ratio: auto.default('auto'),
      image_urls: imageUrls(),
    }),
    run: edit,
  }),
  // The model has one id from its preview and another since its release.
  ...['fal-ai/gemini-3.1-flash-image', 'fal-ai/gemini-3.1-flash-image-preview'].flatMap((id) => [
    defineEndpoint({
      id,
      input: z.object({ ...shared, ...flash, aspect_ratio: wide.default('auto') }),
      run: generate,
    }),
    defineEndpoint({
      id: `${id}/edit`,
      input: z.object({
        ...shared,
        ...flash,
        aspect_ratio: wide.default('auto'),
        image_urls: imageUrls(),
      }),
      run: edit,
    }),
  ]),
];
