/** OpenAI's image models on fal: gpt-image-1-mini, 1.5 and 2, and 2.5 flare and sunburst. */
import { z } from 'zod';
import type { PictureFormat } from '../../media/draw.ts';
import { presetNames, parseSize, sizePresets, type Size } from '../../media/size.ts';
import {
  defineEndpoint,
  type Endpoint,
  type FalFile,
  type GenerationContext,
} from '../endpoint.ts';
import {
  drawAll,
  editAll,
  imageUrl,
  imageUrls,
  toMediaInputs,
  numImages,
  outputFormat,
  prompt,
  matchInputSize,
  syncMode,
} from './fields.ts';

const promptCharactersMax = 32_000;
const edgeMax = 3840;
const pixelsMin = 655_360;
const pixelsMax = 8_294_400;
const ratioMax = 3;

const edge = z.int().min(1).max(edgeMax).multipleOf(16);
const dimensions = z
  .object({ width: edge, height: edge })
  .refine(
    ({ width, height }) => width * height >= pixelsMin && width * height <= pixelsMax,
    `Total pixels must be between ${pixelsMin} and ${pixelsMax}`,
  )
  .refine(
    ({ width, height }) => Math.max(width, height) / Math.min(width, height) <= ratioMax,
    'The aspect ratio must be at most 3:1',
  );
const freeSize = z.union([dimensions, z.enum([...presetNames, 'auto'])]);
const fixedSize = z.enum(['1024x1024', '1536x1024', '1024x1536']);
const fixedOrAuto = z.enum(['auto', '1024x1024', '1536x1024', '1024x1536']);

const shared = {
  prompt: prompt(promptCharactersMax),
  background: z.enum(['auto', 'transparent', 'opaque']).default('auto'),
  output_format: outputFormat,
  sync_mode: syncMode,
};
const firstGeneration = {
  ...shared,
  num_images: numImages(4),
  quality: z.enum(['low', 'medium', 'high']).default('high'),
};
const secondGeneration = {
  ...shared,
  num_images: numImages(4),
  quality: z.enum(['auto', 'low', 'medium', 'high']).default('high'),
};
const latestGeneration = {
  ...shared,
  num_images: numImages(10),
  quality: z.enum(['auto', 'low', 'medium', 'high', 'xhigh', 'max']).default('auto'),
  output_compression: z.int().min(0).max(100).nullish(),
};

interface GptImageInput {
  prompt: string;
  background: string;
  num_images: number;
  output_format: PictureFormat;
  image_size: string | Size;
}

/** Arguments for `refine`: JPEG has no alpha channel, so OpenAI rejects a transparent background. */
const transparencyFitsFormat: [
  (input: { background: string; output_format: string }) => boolean,
  { path: string[]; message: string },
] = [
  (input: { background: string; output_format: string }) =>
    input.background !== 'transparent' || input.output_format !== 'jpeg',
  { path: ['background'], message: 'Transparent background is not supported for jpeg' },
];

function parseImageSize(requested: string | Size): Size | undefined {
  if (typeof requested !== 'string') return requested;
  if (requested === 'auto') return undefined;
  return (
    Object.entries(sizePresets).find(([name]) => name === requested)?.[1] ?? parseSize(requested)
  );
}

const output = (images: FalFile[]) => ({ images });

async function generate(input: GptImageInput, context: GenerationContext) {
  const request = {
    prompt: input.prompt,
    count: input.num_images,
    size: parseImageSize(input.image_size) ?? sizePresets.square_hd,
    format: input.output_format,
    transparent: input.background === 'transparent',
  };
  return { media: await drawAll(request, context), output };
}

interface GptEditInput extends GptImageInput {
  image_urls: string[];
  mask_url?: string | null | undefined;
  mask_image_url?: string | null | undefined;
}

async function edit(input: GptEditInput, context: GenerationContext) {
  const images = toMediaInputs(input.image_urls);
  const maskField = input.mask_url ? 'mask_url' : 'mask_image_url';
  const maskUrl = input.mask_url ?? input.mask_image_url;
  const request = {
    prompt: input.prompt,
    count: input.num_images,
    size: parseImageSize(input.image_size) ?? (await matchInputSize(context, images[0])),
    format: input.output_format,
    transparent: input.background === 'transparent',
    images,
    mask: maskUrl ? { field: maskField, url: maskUrl } : undefined,
  };
  return { media: await editAll(request, context), output };
}

const firstText = z
  .object({ ...firstGeneration, image_size: fixedSize.default('1024x1024') })
  .refine(...transparencyFitsFormat);
const firstEdit = z
  .object({
    ...firstGeneration,
    image_size: fixedOrAuto.default('auto'),
    image_urls: imageUrls(),
    input_fidelity: z.enum(['low', 'high']).default('high'),
    mask_image_url: imageUrl.nullish(),
  })
  .refine(...transparencyFitsFormat);
const editFields = {
  image_size: freeSize.default('auto'),
  image_urls: imageUrls(),
  mask_url: imageUrl.nullish(),
};
const textFields = { image_size: freeSize.default('landscape_4_3') };

/** Endpoints of OpenAI's image models. */
export const gptImageEndpoints: Endpoint[] = [
  ...['fal-ai/gpt-image-1-mini', 'fal-ai/gpt-image-1.5'].flatMap((id) => [
    defineEndpoint({ id, input: firstText, run: generate }),
    defineEndpoint({ id: `${id}/edit`, input: firstEdit, run: edit }),
  ]),
  defineEndpoint({
    id: 'openai/gpt-image-2',
    input: z.object({ ...secondGeneration, ...textFields }).refine(...transparencyFitsFormat),
    run: generate,
  }),
  defineEndpoint({
    id: 'openai/gpt-image-2/edit',
    input: z.object({ ...secondGeneration, ...editFields }).refine(...transparencyFitsFormat),
    run: edit,
  }),
  ...['openai/gpt-image-2.5/flare', 'openai/gpt-image-2.5/sunburst'].flatMap((id) => [
    defineEndpoint({
      id: `${id}/text-to-image`,
      input: z.object({ ...latestGeneration, ...textFields }).refine(...transparencyFitsFormat),
      run: generate,
    }),
    defineEndpoint({
      id: `${id}/edit`,
      input: z.object({ ...latestGeneration, ...editFields }).refine(...transparencyFitsFormat),
      run: edit,
    }),
  ]),
];
