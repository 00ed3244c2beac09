/**
 * Table of image models: each row defines the public id, parameters, routes and price of a model. A
 * new model needs only a row.
 *
 * The specification (§4.7) defines the public ids and their parameters. The provider endpoints,
 * enums and prices are from the providers' documentation, which docs/providers.md summarizes. If a
 * maker shuts down a model, the model's public id remains and is routed to the replacement that the
 * maker names; callers see the replacement in `servedBy`.
 */
import { gptImageModels } from './gpt-image-models.ts';
import {
  allFormats,
  background,
  imageUrls,
  numImages,
  outputFormat,
  defaultEdit,
  type ImageModel,
} from './image-model.ts';
import { seedRule } from './model-parameters.ts';

/** Aspect ratios of Gemini image models. */
const nanoBananaRatios = [
  '21:9',
  '16:9',
  '3:2',
  '4:3',
  '5:4',
  '1:1',
  '4:5',
  '3:4',
  '2:3',
  '9:16',
] as const;

/** Aspect ratios of Imagen 4. The models that replaced it support them too. */
const imagenRatios = ['1:1', '16:9', '9:16', '4:3', '3:4'] as const;

/** Aspect ratios of Grok Imagine. */
const grokRatios = ['1:1', '16:9', '4:3', '3:4', '9:16'] as const;

/** Sizes that GPT Image 1.x supports, keyed by the public aspect ratio. */
const gptImageSizes = {
  '1:1': '1024x1024',
  '3:2': '1536x1024',
  '2:3': '1024x1536',
} as const;

/** Image models in the order of the spec; the first is the default. */
export const imageModels: readonly ImageModel[] = [
  {
    id: 'nano-banana',
    displayName: 'Nano Banana',
    servedBy: 'Gemini 2.5 Flash Image',
    typicalSeconds: 8,
    pixelsMax: 1_100_000,
    generate: {
      numImages,
      aspectRatio: { oneOf: nanoBananaRatios },
      outputFormat,
      seed: seedRule,
      imageUrls,
    },
    edit: defaultEdit,
    routes: [
      {
        provider: 'fal',
        generate: 'fal-ai/nano-banana',
        edit: 'fal-ai/nano-banana/edit',
        imagesPerCallMax: 4,
        nativeFormats: allFormats,
      },
    ],
    price: { usd: 0.039 },
  },
  {
    id: 'nano-banana-pro',
    displayName: 'Nano Banana Pro',
    servedBy: 'Gemini 3 Pro Image',
    typicalSeconds: 25,
    pixelsMax: { '1K': 1_100_000, '2K': 4_400_000, '4K': 17_600_000 },
    generate: {
      numImages,
      aspectRatio: { oneOf: nanoBananaRatios },
      outputFormat,
      resolution: { oneOf: ['1K', '2K', '4K'], default: '1K' },
      seed: seedRule,
      imageUrls,
    },
    routes: [
      {
        provider: 'fal',
        generate: 'fal-ai/nano-banana-pro',
        edit: 'fal-ai/nano-banana-pro/edit',
        imagesPerCallMax: 4,
        nativeFormats: allFormats,
      },
    ],
    price: {
      usd: 0.15,
      usdByField: { resolution: { '4K': 0.3 } },
      // A 2K picture of any aspect ratio has fewer pixels than `pixelsBelow`; a 4K one has more.
      smaller: { pixelsBelow: 8_000_000, usd: 0.15 },
    },
  },
  {
    id: 'seedream',
    displayName: 'Seedream 4',
    servedBy: 'Seedream 4',
    typicalSeconds: 10,
    pixelsMax: 2048 * 2048,
    generate: {
      numImages,
      outputFormat,
      width: { min: 1024, max: 4096 },
      height: { min: 1024, max: 4096 },
      seed: seedRule,
      imageUrls,
    },
    edit: defaultEdit,
    routes: [
      {
        provider: 'fal',
        generate: 'fal-ai/bytedance/seedream/v4/text-to-image',
        edit: 'fal-ai/bytedance/seedream/v4/edit',
        imagesPerCallMax: 6,
        nativeFormats: [],
        rename: { size: 'image_size' },
      },
    ],
    price: { usd: 0.03 },
  },
  {
    id: 'alpha-image',
    displayName: 'Alpha Image',
    servedBy: 'GPT Image 1.5 (GPT Image 1 was shut down on 2026-10-23)',
    typicalSeconds: 30,
    pixelsMax: 1536 * 1024,
    generate: {
      numImages,
      aspectRatio: { oneOf: Object.keys(gptImageSizes) },
      outputFormat,
      seed: seedRule,
      quality: { oneOf: ['auto', 'low', 'medium', 'high'], default: 'medium' },
      background,
    },
    routes: [
      {
        provider: 'fal',
        generate: 'fal-ai/gpt-image-1.5',
        omitFields: ['seed'],
        imagesPerCallMax: 4,
        nativeFormats: allFormats,
        rename: { aspectRatio: 'image_size' },
        values: { aspectRatio: gptImageSizes },
        // This endpoint has no quality `auto`; without the field it chooses the quality.
        omitValues: { quality: ['auto'] },
      },
    ],
    // If the quality is `auto`, the provider may choose the most expensive one.
    price: { usd: 0.133, usdByField: { quality: { low: 0.009, medium: 0.034, high: 0.133 } } },
  },
  {
    id: 'alpha-image-mini',
    displayName: 'Alpha Image Mini',
    servedBy: 'GPT Image 1 Mini',
    typicalSeconds: 20,
    pixelsMax: 1536 * 1024,
    generate: {
      numImages,
      aspectRatio: { oneOf: Object.keys(gptImageSizes) },
      outputFormat,
      seed: seedRule,
    },
    routes: [
      {
        provider: 'fal',
        generate: 'fal-ai/gpt-image-1-mini',
        omitFields: ['seed'],
        imagesPerCallMax: 4,
        nativeFormats: allFormats,
        rename: { aspectRatio: 'image_size' },
        values: { aspectRatio: gptImageSizes },
        constantFields: { quality: 'medium' },
      },
    ],
    price: { usd: 0.011 },
  },
  ...gptImageModels,
  {
    id: 'alpha-imagen',
    displayName: 'Alpha Imagen',
    servedBy: 'Gemini 3.1 Flash Image (Imagen 4 was shut down on 2026-08-17)',
    typicalSeconds: 10,
    pixelsMax: 1_100_000,
    generate: {
      numImages: { ...numImages, max: 4 },
      aspectRatio: { oneOf: imagenRatios },
      outputFormat,
      seed: seedRule,
    },
    routes: [
      {
        provider: 'fal',
        generate: 'fal-ai/gemini-3.1-flash-image-preview',
        imagesPerCallMax: 4,
        nativeFormats: allFormats,
      },
    ],
    price: { usd: 0.045 },
  },
  {
    id: 'alpha-imagen-ultra',
    displayName: 'Alpha Imagen Ultra',
    servedBy: 'Gemini 3 Pro Image (Imagen 4 Ultra was shut down on 2026-08-17)',
    typicalSeconds: 25,
    pixelsMax: 1_100_000,
    generate: {
      numImages: { ...numImages, max: 4 },
      aspectRatio: { oneOf: imagenRatios },
      outputFormat,
      negativePrompt: { charactersMax: 2000 },
      seed: seedRule,
    },
    routes: [
      {
        provider: 'fal',
        generate: 'fal-ai/nano-banana-pro',
        imagesPerCallMax: 4,
        nativeFormats: allFormats,
        // Gemini 3 Pro Image has no negative prompt, but follows a sentence in the prompt.
        negativePrompt: 'sentence',
      },
    ],
    price: { usd: 0.15 },
  },
  {
    id: 'alpha-imagine',
    displayName: 'Alpha Imagine',
    servedBy: 'Grok Imagine',
    typicalSeconds: 10,
    pixelsMax: 1_400_000,
    generate: {
      numImages,
      aspectRatio: { oneOf: grokRatios },
      outputFormat,
      seed: seedRule,
    },
    routes: [
      {
        provider: 'fal',
        generate: 'xai/grok-imagine-image',
        omitFields: ['seed'],
        imagesPerCallMax: 4,
        nativeFormats: allFormats,
      },
    ],
    price: { usd: 0.04 },
  },
];

/** Image models that image/edit supports (spec §4.7); the first is the default. */
export const editModels: readonly ImageModel[] = imageModels.filter((model) => model.edit);
