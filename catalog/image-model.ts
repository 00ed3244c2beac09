/** The shape of a row of the image model table, what its rows share, and what an image costs. */
import {
  seedRule,
  type CatalogRow,
  type FieldMap,
  type ParameterRules,
} from './model-parameters.ts';

/** How a provider serves the model. */
export interface ImageRoute extends FieldMap {
  provider: string;
  /** Operation that draws from a prompt. */
  generate: string;
  /** Operation that draws from a prompt and pictures. */
  edit?: string;
  imagesPerCallMax: number;
  /** Formats the upstream can make; another one is converted while it is stored. */
  nativeFormats: readonly string[];
  /** `sentence`: the negative prompt is added to the prompt as a sentence. */
  negativePrompt?: 'sentence';
}

/** USD of one image. */
export interface ImagePrice {
  usd: number;
  /** Overrides `usd` by the value of one request field. */
  by?: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** A larger picture costs in proportion to its pixels; this many are in the price. */
  includedPixels?: number;
  /** What a picture with fewer pixels costs at most, whatever was asked for. */
  smaller?: { pixelsBelow: number; usd: number };
}

/** A row of the table. */
export interface ImageModel extends CatalogRow {
  /** What image/generate takes. */
  generate: ParameterRules;
  /** What image/edit takes; absent: the model does not edit. */
  edit?: ParameterRules;
  /** In order of preference. */
  routes: readonly ImageRoute[];
  price: ImagePrice;
}

/** Every format that we store. */
export const anyFormat = ['png', 'jpeg', 'webp'] as const;

/** What most image models take as `numImages`. */
export const numImages = { min: 1, max: 10, default: 1 } as const;
/** As `outputFormat`. */
export const outputFormat = { oneOf: anyFormat } as const;
/** As `background`. */
export const background = { oneOf: ['auto', 'transparent', 'opaque'] } as const;
/** As `imageUrls`. */
export const imageUrls = { itemsMax: 10 } as const;
/** What image/edit takes of models without fields of their own. */
export const plainEdit: ParameterRules = { imageUrls, numImages, outputFormat, seed: seedRule };

/** USD of one image of this request; `pixels` is its size where the request decides it. */
export function imagePriceUsd(
  price: ImagePrice,
  request: Readonly<Record<string, unknown>>,
  pixels = 0,
): number {
  const share = price.includedPixels ? Math.max(1, pixels / price.includedPixels) : 1;
  for (const [field, table] of Object.entries(price.by ?? {})) {
    const value = request[field];
    const usd = typeof value === 'string' ? table[value] : undefined;
    if (usd !== undefined) return usd * share;
  }
  return price.usd * share;
}

/** USD of the smaller pictures that may come instead of one of this many pixels. */
export function smallerImagesUsd(
  price: ImagePrice,
  usd: number,
  pixels: number,
): { pixelsBelow: number; unitPriceUsd: number }[] {
  const { includedPixels, smaller } = price;
  if (smaller && smaller.usd < usd) {
    return [{ pixelsBelow: smaller.pixelsBelow, unitPriceUsd: smaller.usd }];
  }
  if (!includedPixels || pixels <= includedPixels) return [];
  const usdPerStep = usd / (pixels / includedPixels);
  return pixelSteps(Math.ceil(pixels / includedPixels) - 1, includedPixels, usdPerStep);
}

/** The price of so many steps of pixels, each begun one paid for. */
export function pixelSteps(
  count: number,
  stepPixels: number,
  usdPerStep: number,
): { pixelsBelow: number; unitPriceUsd: number }[] {
  return Array.from({ length: Math.max(0, count) }, (_, index) => ({
    pixelsBelow: (index + 1) * stepPixels + 1,
    unitPriceUsd: (index + 1) * usdPerStep,
  }));
}

/** Pixels of the named sizes of `imageSize` (spec §4.7; fal's `image_size`). */
export const imageSizes = {
  square_hd: { width: 1024, height: 1024 },
  square: { width: 512, height: 512 },
  portrait_4_3: { width: 768, height: 1024 },
  portrait_16_9: { width: 576, height: 1024 },
  landscape_4_3: { width: 1024, height: 768 },
  landscape_16_9: { width: 1024, height: 576 },
} as const;

/** A name of `imageSize`. */
export type ImageSizeName = keyof typeof imageSizes;
