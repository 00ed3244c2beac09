/** Types of the image model table, and parameter rules that its rows share. */
import {
  seedRule,
  type CatalogRow,
  type ParameterRules,
  type FieldMap,
  type PixelsMax,
} from './model-parameters.ts';

/** Route of an image model: the provider, its endpoints and its limits. */
export interface ImageRoute extends FieldMap {
  provider: string;
  /** Provider endpoint that generates images from a prompt. */
  generate: string;
  /** Provider endpoint that generates images from a prompt and pictures. */
  edit?: string;
  imagesPerCallMax: number;
  /** Formats that the provider can generate. Other formats are converted when they are stored. */
  nativeFormats: readonly string[];
  /**
   * Form in which the negative prompt is sent. `sentence` appends it to the prompt as a sentence.
   * By default, it is sent in the field `negative_prompt`.
   */
  negativePrompt?: 'sentence';
}

/** Price of one image in USD. */
export interface ImagePrice {
  usd: number;
  /** Prices that override `usd`, keyed by one request field and its values. */
  usdByField?: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** Number of pixels included in the price; a larger picture costs proportionally more. */
  includedPixels?: number;
  /**
   * Maximum price of a delivered picture with fewer than `pixelsBelow` pixels, even if the request
   * asked for a larger one.
   */
  smaller?: { pixelsBelow: number; usd: number };
}

/** Image model: a row of the image model table. */
export interface ImageModel extends CatalogRow {
  /** Parameters of image/generate. */
  generate: ParameterRules;
  /** Parameters of image/edit; omit if the model does not support edits. */
  edit?: ParameterRules;
  /** Routes; the first one is preferred. */
  routes: readonly ImageRoute[];
  price: ImagePrice;
  pixelsMax: PixelsMax;
}

/** All output formats. */
export const allFormats = ['png', 'jpeg', 'webp'] as const;

/** Rule for `numImages` of most image models. */
export const numImages = { min: 1, max: 10, default: 1 } as const;
/** Rule for `outputFormat` of most image models. */
export const outputFormat = { oneOf: allFormats } as const;
/** Rule for `background` of most image models. */
export const background = { oneOf: ['auto', 'transparent', 'opaque'] } as const;
/** Rule for `imageUrls` of most image models. */
export const imageUrls = { itemsMax: 10 } as const;
/** Parameters of image/edit for models that support no other fields. */
export const defaultEdit: ParameterRules = { imageUrls, numImages, outputFormat, seed: seedRule };

/** Named sizes of `imageSize` in pixels (spec §4.7; fal's `image_size`). */
export const imageSizes = {
  square_hd: { width: 1024, height: 1024 },
  square: { width: 512, height: 512 },
  portrait_4_3: { width: 768, height: 1024 },
  portrait_16_9: { width: 576, height: 1024 },
  landscape_4_3: { width: 1024, height: 768 },
  landscape_16_9: { width: 1024, height: 576 },
} as const;

/** Name of an `imageSize`. */
export type ImageSizeName = keyof typeof imageSizes;
