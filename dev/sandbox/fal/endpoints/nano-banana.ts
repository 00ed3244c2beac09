/** Gemini image models on fal: nano-banana, nano-banana-pro and gemini-3.1-flash-image. */
import { z } from 'zod';
import type { PictureFormat } from '../../media/draw.ts';
import type { Media } from '../../media/media.ts';
import { sizeOfAspect } from '../../media/size.ts';
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
  inputsOf,
  numImages,
  outputFormat,
  prompt,
  safetyTolerance,
  seed,
  sizeLikeInput,
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

const described = (media: Media[]) => ({
  media,
  output: (images: FalFile[]) => ({ images, description: '' }),
});

async function generate(input: NanoBananaInput, context: GenerationContext) {
  const aspect = input.aspect_ratio === 'auto' ? '1:1' : input.aspect_ratio;
  const size = sizeOfAspect(aspect, input.resolution);
  const { num_images: count, output_format: format } = input;
  return described(await drawAll({ ...input, count, size, format }, context));
}

async function edit(input: NanoBananaInput & { image_urls: string[] }, context: GenerationContext) {
  const images = inputsOf(input.image_urls);
  const size =
    input.aspect_ratio === 'auto'
      ? await sizeLikeInput(context, images[0], input.resolution)
      : sizeOfAspect(input.aspect_ratio, input.resolution);
  const { num_images: count, output_format: format } = input;
  return described(await editAll({ ...input, images, count, size, format }, context));
}

/** The family's endpoints. */
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
  // Ids of the same model during and after its preview.
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
