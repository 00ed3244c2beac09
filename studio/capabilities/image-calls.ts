/**
 * Plans the calls of image/generate and image/edit: splits a request into calls and builds the
 * providers' inputs.
 */
import {
  type ImageModel,
  type ImageRoute,
  imageSizes,
  type ImageSizeName,
} from '../models/image-model.ts';
import {
  findPixelsMax,
  getMissingDefaults,
  type ParameterRules,
  buildProviderInput,
  type Fields,
} from '../models/model-parameters.ts';
import {
  calculateUnitPrice,
  type PriceRule,
  type UnitPrice,
  imagePriceRules,
} from '../models/price-rules.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { Json } from '../../domain/json.ts';
import type { DraftCall, PlanInput } from '../../domain/draft-plan.ts';
import type { MaskArea, OutputSpec } from '../../domain/job-plan.ts';

/** Common aspect ratios. The ratio of a generated picture may differ slightly. */
const commonRatios = [
  '1:1',
  '4:3',
  '3:4',
  '3:2',
  '2:3',
  '16:9',
  '9:16',
  '21:9',
  '9:21',
  '5:4',
  '4:5',
  '8:5',
  '5:8',
];
/**
 * Maximum relative difference between the ratio of a picture and the common ratio that describes
 * it.
 */
const differenceMax = 0.02;

/**
 * Returns the aspect ratio of a size: `16:9` for 1360×768, or the reduced ratio if no common ratio
 * is close enough.
 */
export function findAspectRatio({
  width,
  height,
}: {
  width: number | null;
  height: number | null;
}): string | null {
  if (width === null || height === null) return null;
  const match = commonRatios.find((name) => {
    const [wide = 0, high = 1] = name.split(':').map(Number);
    return Math.abs((width / height) * (high / wide) - 1) <= differenceMax;
  });
  return match ?? reduceRatio(width, height);
}

/** Returns the ratio of width to height in lowest terms. */
export function reduceRatio(width: number, height: number): string {
  const findDivisor = (a: number, b: number): number => (b === 0 ? a : findDivisor(b, a % b));
  const divisor = Math.max(1, findDivisor(width, height));
  return `${width / divisor}:${height / divisor}`;
}

/** Request fields that image calls depend on. */
export interface ImageRequest {
  prompt: string;
  numImages?: number | undefined;
  outputFormat?: 'jpeg' | 'png' | 'webp' | undefined;
  background?: string | undefined;
  seed?: number | undefined;
  negativePrompt?: string | undefined;
  width?: number | undefined;
  height?: number | undefined;
  imageSize?: ImageSizeName | { width: number; height: number } | undefined;
  imageUrls?: string[] | undefined;
  maskArea?: MaskArea | undefined;
  [field: string]: Json | undefined;
}

/** Picture that a request refers to. */
export type PictureInput = PlanInput & { medium: 'image' };

/** Splits the requested images into calls that every route supports, with distinct seeds. */
export function planImageCalls(
  model: ImageModel,
  rules: ParameterRules,
  body: ImageRequest,
): DraftCall[] {
  const fields = addDefaults(rules, body);
  const imageCount = body.numImages ?? 1;
  const routes = body.imageUrls ? model.routes.filter((route) => route.edit) : model.routes;
  const imagesPerCall = Math.min(...routes.map((route) => route.imagesPerCallMax));
  const size = findSize(fields);
  const pixels = size ? size.width * size.height : 0;
  const priceRules = imagePriceRules(model.price, rules);
  const price = calculateUnitPrice(priceRules[0], fields, pixels);
  const { smaller } = model.price;
  const output: OutputSpec = {
    medium: 'image',
    format: body.outputFormat ?? null,
    ...(size && { expected: size }),
  };
  const calls: DraftCall[] = [];
  for (let firstImage = 0; firstImage < imageCount; firstImage += imagesPerCall) {
    const quantity = Math.min(imagesPerCall, imageCount - firstImage);
    // Each call has its own seed, so that its images differ from those of the other calls. If a
    // request is repeated, its calls have the same seeds again.
    const seed = body.seed === undefined ? undefined : (body.seed + firstImage) % 2_147_483_648;
    const callFields = { ...fields, numImages: quantity, seed };
    calls.push({
      quantity,
      unitPriceUsd: price.usd,
      priceNote: describeChargedValue(priceRules, fields, price),
      typicalSeconds: model.typicalSeconds,
      variants:
        smaller && smaller.usd < price.usd
          ? [{ pixelsBelow: smaller.pixelsBelow, unitPriceUsd: smaller.usd }]
          : price.smaller,
      required: false,
      output,
      ...(body.maskArea && { maskArea: body.maskArea }),
      ...(!size && {
        planned: { pixelsMax: findPixelsMax(model.pixelsMax, fields['resolution']) },
      }),
      routes: routes.map((route) => ({
        provider: route.provider,
        providerEndpoint: (body.imageUrls && route.edit) || route.generate,
        input: buildImageInput(route, callFields),
      })),
    });
  }
  return calls;
}

/**
 * Returns a note for the caller that names the value whose price is charged, if the request lets
 * the model choose a value. Otherwise returns undefined.
 */
function describeChargedValue(
  [rule]: [PriceRule],
  fields: Fields,
  { chargedAs }: UnitPrice,
): string | undefined {
  if (chargedAs === undefined) return undefined;
  const values = rule.rows.flatMap(({ when }) => Object.entries(when));
  const [field = '', value] = values.find(([name, charged]) => fields[name] === charged) ?? [];
  return `${field} "${String(value)}" lets the model choose the value; the price is that of "${chargedAs}"`;
}

function addDefaults(rules: ParameterRules, body: ImageRequest): Fields {
  const { width, height, ...others } = body;
  const size =
    width === undefined && height === undefined
      ? undefined
      : { width: width ?? height ?? 0, height: height ?? width ?? 0 };
  return { ...others, ...getMissingDefaults(rules, body), size };
}

/** Returns the requested size in pixels; null if the model chooses it. */
function findSize({ imageSize, size }: Fields): { width: number; height: number } | null {
  const namedSize = Object.entries(imageSizes).find(([name]) => name === imageSize)?.[1];
  const requestedSize = namedSize ?? imageSize ?? size;
  if (typeof requestedSize !== 'object' || requestedSize === null || !('width' in requestedSize))
    return null;
  return { width: Number(requestedSize['width']), height: Number(requestedSize['height']) };
}

function buildImageInput(route: ImageRoute, fields: Fields) {
  const { outputFormat, negativePrompt, ...others } = fields;
  const { prompt } = others;
  const isNative = typeof outputFormat === 'string' && route.nativeFormats.includes(outputFormat);
  const input = buildProviderInput(route, isNative ? { ...others, outputFormat } : others);
  if (typeof negativePrompt !== 'string' || typeof prompt !== 'string') return input;
  if (route.negativePrompt !== 'sentence') return { ...input, negative_prompt: negativePrompt };
  return { ...input, prompt: `${prompt}\n\nDo not show: ${negativePrompt}` };
}

/**
 * Throws if a transparent background is requested as JPEG, which does not support it.
 * @throws GatewayError CONFLICTING_FIELDS
 */
export function throwIfTransparentJpeg(body: ImageRequest): void {
  if (body.background !== 'transparent' || body.outputFormat !== 'jpeg') return;
  throw new GatewayError('CONFLICTING_FIELDS', 'JPEG does not support a transparent background', {
    details: [
      { path: 'background', message: 'a transparent background requires outputFormat png or webp' },
      { path: 'outputFormat', message: 'must be png or webp if background is transparent' },
    ],
  });
}

/**
 * Builds the plan inputs for a list of picture URLs. The field name of each input contains its
 * index in the list.
 */
export function buildPictureInputs(
  field: string,
  urls: readonly string[] | undefined,
): PictureInput[] {
  return (urls ?? []).map((url, index) => ({ field: `${field}.${index}`, url, medium: 'image' }));
}
