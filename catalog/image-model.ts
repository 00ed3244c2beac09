/** The shape of a row of the image model table, and values that its rows share. */
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
