/**
 * Image models: public id → limits, parameters, price and route. Adding a model is one row.
 *
 * Public ids and their parameters: spec §4.7. Upstream endpoints, enums and prices: the providers' own
 * documentation, as gathered in docs/providers.md. A model whose upstream was shut down keeps its
 * public id and is routed to the replacement its maker names (`servedBy` says so to callers).
 */
import {
  gptCustomSize,
  gptImageSizes,
  imagenRatios,
  nanoBananaRatios,
  squareToPhoto,
} from './image-sizes.ts';
import type { ImageModel } from './image-model.ts';

const anyFormat = ['png', 'jpeg', 'webp'] as const;
const qualities = ['auto', 'low', 'medium', 'high'] as const;
const backgrounds = ['auto', 'transparent', 'opaque'] as const;

/** Ids in the order of the spec; the first is the default. */
export const imageModels: readonly ImageModel[] = [
  {
    id: 'nano-banana',
    displayName: 'Nano Banana',
    servedBy: 'Gemini 2.5 Flash Image',
    parameters: {
      numImages: { max: 10 },
      aspectRatio: nanoBananaRatios,
      outputFormat: anyFormat,
      seed: true,
      imageUrls: { max: 10 },
    },
    routes: [
      {
        provider: 'fal',
        generate: 'fal-ai/nano-banana',
        edit: 'fal-ai/nano-banana/edit',
        imagesPerCallMax: 4,
        nativeFormats: anyFormat,
        rename: {
          aspectRatio: 'aspect_ratio',
          outputFormat: 'output_format',
          imageUrls: 'image_urls',
        },
      },
    ],
    price: { usd: 0.039 },
  },
  {
    id: 'nano-banana-pro',
    displayName: 'Nano Banana Pro',
    servedBy: 'Gemini 3 Pro Image',
    parameters: {
      numImages: { max: 10 },
      aspectRatio: nanoBananaRatios,
      outputFormat: anyFormat,
      resolution: ['1K', '2K', '4K'],
      seed: true,
      imageUrls: { max: 10 },
    },
    routes: [
      {
        provider: 'fal',
        generate: 'fal-ai/nano-banana-pro',
        edit: 'fal-ai/nano-banana-pro/edit',
        imagesPerCallMax: 4,
        nativeFormats: anyFormat,
        rename: {
          aspectRatio: 'aspect_ratio',
          outputFormat: 'output_format',
          imageUrls: 'image_urls',
        },
      },
    ],
    price: { usd: 0.15, by: { resolution: { '4K': 0.3 } } },
  },
  {
    id: 'seedream',
    displayName: 'Seedream 4',
    servedBy: 'Seedream 4',
    parameters: {
      numImages: { max: 10 },
      outputFormat: anyFormat,
      size: { minPixels: 1024, maxPixels: 4096 },
      seed: true,
      imageUrls: { max: 10 },
    },
    routes: [
      {
        provider: 'fal',
        generate: 'fal-ai/bytedance/seedream/v4/text-to-image',
        edit: 'fal-ai/bytedance/seedream/v4/edit',
        imagesPerCallMax: 6,
        nativeFormats: [],
        rename: { size: 'image_size', imageUrls: 'image_urls' },
      },
    ],
    price: { usd: 0.03 },
  },
  {
    id: 'alpha-image',
    displayName: 'Alpha Image',
    servedBy: 'GPT Image 1.5 (GPT Image 1 was shut down on 2026-10-23)',
    parameters: {
      numImages: { max: 10 },
      aspectRatio: Object.keys(gptImageSizes),
      outputFormat: anyFormat,
      seed: true,
      quality: qualities,
      background: backgrounds,
    },
    routes: [
      {
        provider: 'fal',
        generate: 'fal-ai/gpt-image-1.5',
        drop: ['seed'],
        imagesPerCallMax: 4,
        nativeFormats: anyFormat,
        rename: { aspectRatio: 'image_size', outputFormat: 'output_format' },
        values: { aspectRatio: gptImageSizes },
        // This upstream has no `auto` quality: leaving the field out means the same.
        omit: { quality: ['auto'] },
      },
    ],
    price: { usd: 0.034, by: { quality: { low: 0.009, medium: 0.034, high: 0.133 } } },
  },
  {
    id: 'alpha-image-mini',
    displayName: 'Alpha Image Mini',
    servedBy: 'GPT Image 1 Mini',
    parameters: {
      numImages: { max: 10 },
      aspectRatio: Object.keys(gptImageSizes),
      outputFormat: anyFormat,
      seed: true,
    },
    routes: [
      {
        provider: 'fal',
        generate: 'fal-ai/gpt-image-1-mini',
        drop: ['seed'],
        imagesPerCallMax: 4,
        nativeFormats: anyFormat,
        rename: { aspectRatio: 'image_size', outputFormat: 'output_format' },
        values: { aspectRatio: gptImageSizes },
      },
    ],
    price: { usd: 0.011 },
  },
  {
    id: 'alpha-image-2',
    displayName: 'Alpha Image 2',
    servedBy: 'GPT Image 2',
    parameters: {
      numImages: { max: 10 },
      outputFormat: anyFormat,
      quality: qualities,
      background: backgrounds,
      seed: true,
      imageSize: gptCustomSize,
      imageUrls: { max: 10 },
    },
    routes: [
      {
        provider: 'fal',
        generate: 'openai/gpt-image-2',
        drop: ['seed'],
        edit: 'openai/gpt-image-2/edit',
        imagesPerCallMax: 4,
        nativeFormats: anyFormat,
        rename: {
          imageSize: 'image_size',
          outputFormat: 'output_format',
          imageUrls: 'image_urls',
        },
      },
    ],
    price: { usd: 0.06, by: { quality: { low: 0.01, medium: 0.06, high: 0.22 } } },
  },
  ...(['flare', 'sunburst'] as const).map((variant): ImageModel => ({
    id: `alpha-image-2.5-${variant}`,
    displayName: variant === 'flare' ? 'Alpha Image 2.5 Flare' : 'Alpha Image 2.5 Sunburst',
    servedBy: variant === 'flare' ? 'GPT Image 2.5 Flare' : 'GPT Image 2.5 Sunburst',
    parameters: {
      numImages: { max: 10 },
      outputFormat: anyFormat,
      quality: qualities,
      background: backgrounds,
      seed: true,
      imageSize: gptCustomSize,
      imageUrls: { max: 10 },
    },
    routes: [
      {
        provider: 'fal',
        generate: `openai/gpt-image-2.5/${variant}/text-to-image`,
        drop: ['seed'],
        edit: `openai/gpt-image-2.5/${variant}/edit`,
        imagesPerCallMax: 10,
        nativeFormats: anyFormat,
        rename: {
          imageSize: 'image_size',
          outputFormat: 'output_format',
          imageUrls: 'image_urls',
        },
      },
    ],
    price:
      variant === 'flare'
        ? { usd: 0.04, by: { quality: { low: 0.008, medium: 0.04, high: 0.15 } } }
        : { usd: 0.08, by: { quality: { low: 0.015, medium: 0.08, high: 0.25 } } },
  })),
  {
    id: 'alpha-imagen',
    displayName: 'Alpha Imagen',
    servedBy: 'Gemini 3.1 Flash Image (Imagen 4 was shut down on 2026-08-17)',
    parameters: {
      numImages: { max: 4 },
      aspectRatio: imagenRatios,
      outputFormat: anyFormat,
      seed: true,
    },
    routes: [
      {
        provider: 'fal',
        generate: 'fal-ai/gemini-3.1-flash-image-preview',
        imagesPerCallMax: 4,
        nativeFormats: anyFormat,
        rename: { aspectRatio: 'aspect_ratio', outputFormat: 'output_format' },
      },
    ],
    price: { usd: 0.045 },
  },
  {
    id: 'alpha-imagen-ultra',
    displayName: 'Alpha Imagen Ultra',
    servedBy: 'Gemini 3 Pro Image (Imagen 4 Ultra was shut down on 2026-08-17)',
    parameters: {
      numImages: { max: 4 },
      aspectRatio: imagenRatios,
      outputFormat: anyFormat,
      negativePrompt: true,
      seed: true,
    },
    routes: [
      {
        provider: 'fal',
        generate: 'fal-ai/nano-banana-pro',
        imagesPerCallMax: 4,
        nativeFormats: anyFormat,
        rename: { aspectRatio: 'aspect_ratio', outputFormat: 'output_format' },
        // The replacement takes no such field but follows the sentence.
        negativePrompt: 'sentence',
      },
    ],
    price: { usd: 0.15 },
  },
  {
    id: 'alpha-imagine',
    displayName: 'Alpha Imagine',
    servedBy: 'Grok Imagine',
    parameters: {
      numImages: { max: 10 },
      aspectRatio: squareToPhoto,
      outputFormat: anyFormat,
      seed: true,
    },
    routes: [
      {
        provider: 'fal',
        generate: 'xai/grok-imagine-image',
        drop: ['seed'],
        imagesPerCallMax: 4,
        nativeFormats: anyFormat,
        rename: { aspectRatio: 'aspect_ratio', outputFormat: 'output_format' },
      },
    ],
    price: { usd: 0.04 },
  },
];
