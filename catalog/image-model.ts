/** The shape of a row of the image model table, and look-ups over it. */
import { GatewayError } from '../domain/errors.ts';
import type { ProviderName } from './providers.ts';

type Words = readonly string[];

/** What a model accepts. A parameter that is absent here is refused with UNSUPPORTED_PARAMETER. */
export interface ImageParameters {
  numImages: { max: number };
  aspectRatio?: Words;
  outputFormat: Words;
  resolution?: Words;
  /** `width` and `height`, each within these pixels. */
  size?: { minPixels: number; maxPixels: number };
  /** Named sizes, or {width, height} in multiples of 16 within these bounds. */
  imageSize?: {
    edgeMaxPixels: number;
    areaMinPixels: number;
    areaMaxPixels: number;
    ratioMax: number;
  };
  seed?: true;
  negativePrompt?: true;
  quality?: Words;
  background?: Words;
  imageUrls?: { max: number };
}

/** How a provider serves the model. */
export interface ImageRoute {
  provider: ProviderName;
  /** Operation that draws from a prompt. */
  generate: string;
  /** Operation that draws from a prompt and reference images. */
  edit?: string;
  imagesPerCallMax: number;
  /** Formats the upstream can make; another one is converted while it is stored. */
  nativeFormats: Words;
  /** Our field → the provider's field; a field not named here keeps its name. */
  rename: Readonly<Record<string, string>>;
  /** Our value → the provider's value, by field. */
  values?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Values that are said by leaving the field out, by field. */
  omit?: Readonly<Record<string, Words>>;
  /** Fields that the spec allows on every model and this upstream does not know: `seed`. */
  drop?: Words;
  /** `sentence`: the negative prompt is added to the prompt as a sentence. */
  negativePrompt?: 'sentence';
}

/** USD of one image; `by` overrides it by the value of one request field. */
export interface ImagePrice {
  usd: number;
  by?: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** A row of the table. */
export interface ImageModel {
  id: string;
  displayName: string;
  /** The upstream model behind the public id, told to callers. */
  servedBy: string;
  parameters: ImageParameters;
  /** In order of preference. */
  routes: readonly ImageRoute[];
  price: ImagePrice;
}

/**
 * Finds a model by its public id.
 * @throws GatewayError UNKNOWN_MODEL listing what exists.
 */
export function findImageModel(models: readonly ImageModel[], id: string): ImageModel {
  const model = models.find((row) => row.id === id);
  if (model) return model;
  const known = models.map((row) => row.id).join(', ');
  throw new GatewayError('UNKNOWN_MODEL', `model "${id}" does not exist here`, {
    details: [{ path: 'model', message: `one of: ${known}` }],
  });
}

/** USD of one image of this request. */
export function imagePriceUsd(
  price: ImagePrice,
  request: Readonly<Record<string, unknown>>,
): number {
  for (const [field, table] of Object.entries(price.by ?? {})) {
    const value = request[field];
    const usd = typeof value === 'string' ? table[value] : undefined;
    if (usd !== undefined) return usd;
  }
  return price.usd;
}
