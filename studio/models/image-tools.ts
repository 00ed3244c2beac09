/**
 * Tools that upscale a picture or remove its background. This project sets the prices of the tools,
 * because published sources disagree about the providers' prices (docs/providers.md).
 */
import type { FieldMap, CatalogRow, ParameterRules } from './model-parameters.ts';

interface ToolRoute extends FieldMap {
  provider: string;
  providerEndpoint: string;
}

/** Price by the size of a picture: `usd` for each started block of `stepPixels` pixels. */
export interface PixelPrice {
  usd: number;
  stepPixels: number;
}

/** Upscaling service that image/upscale offers. */
export interface Upscaler extends CatalogRow {
  parameters: ParameterRules;
  routes: readonly ToolRoute[];
  /**
   * Scale factors of the successive provider calls, keyed by the requested scale factor. An upscale
   * has several steps if the provider does not support the requested factor in one call.
   */
  steps: Readonly<Record<number, readonly number[]>>;
  /** Price of one step; it depends on the number of pixels of the step's result. */
  price: PixelPrice;
}

/**
 * Returns one factor per step: the edge length after the step divided by the edge length of the
 * input. For the steps 3 and 2, the factors are 3 and 6.
 */
export function calculateEnlargements({ steps }: Upscaler, scaleFactor: number): number[] {
  let enlargement = 1;
  return (steps[scaleFactor] ?? [scaleFactor]).map((factor) => (enlargement *= factor));
}

/** Maximum number of pixels of an upscaled picture; stored pictures have the same maximum. */
export const upscaledPixelsMax = 64_000_000;

/** Services of image/upscale, with the ids of the spec; the first is the default. */
export const upscalers: readonly Upscaler[] = [
  {
    id: 'service_a',
    displayName: 'Service A',
    servedBy: 'Topaz',
    typicalSeconds: 20,
    parameters: {
      scaleFactor: { oneOf: [2, 4, 6], default: 2 },
      model: {
        oneOf: ['Standard V2', 'High Fidelity V2', 'CGI', 'Low Resolution V2'],
        default: 'Standard V2',
      },
      faceEnhancement: { oneOf: [true, false], default: true },
    },
    routes: [
      {
        provider: 'fal',
        providerEndpoint: 'fal-ai/topaz/upscale/image',
        rename: { scaleFactor: 'upscale_factor' },
        constantFields: { output_format: 'png' },
      },
    ],
    // This provider endpoint supports factors of up to 4, so factor 6 needs two steps.
    steps: { 2: [2], 4: [4], 6: [3, 2] },
    price: { usd: 0.08, stepPixels: 24_000_000 },
  },
  {
    id: 'service_b',
    displayName: 'Service B',
    servedBy: 'SeedVR2',
    typicalSeconds: 20,
    parameters: { scaleFactor: { oneOf: [2, 4, 6], default: 2 } },
    routes: [
      {
        provider: 'fal',
        providerEndpoint: 'fal-ai/seedvr/upscale/image',
        rename: { scaleFactor: 'upscale_factor' },
        constantFields: { upscale_mode: 'factor', output_format: 'png' },
      },
    ],
    steps: { 2: [2], 4: [4], 6: [6] },
    price: { usd: 0.02, stepPixels: 8_000_000 },
  },
];

/** Background removal model that image/remove-background offers. */
export interface BackgroundRemover extends CatalogRow {
  parameters: ParameterRules;
  routes: readonly ToolRoute[];
  /** Price of one picture in USD, keyed by `operatingResolution`. */
  usdByResolution: Readonly<Record<string, number>>;
}

const removerParameters: ParameterRules = {
  operatingResolution: { oneOf: ['1024x1024', '2048x2048', '2304x2304'], default: '1024x1024' },
  refineForeground: { oneOf: [true, false], default: true },
};

/** Models of image/remove-background, with the ids of the spec; the first is the default. */
export const backgroundRemovers: readonly BackgroundRemover[] = [
  'General Use (Light)',
  'General Use (Heavy)',
  'Portrait',
].map((id) => ({
  id,
  displayName: id,
  servedBy: 'BiRefNet v2',
  typicalSeconds: 5,
  parameters: removerParameters,
  routes: [
    {
      provider: 'fal',
      providerEndpoint: 'fal-ai/birefnet/v2',
      constantFields: { output_format: 'png' },
    },
  ],
  usdByResolution: { '1024x1024': 0.005, '2048x2048': 0.01, '2304x2304': 0.012 },
}));

/**
 * Largest operating resolution, and the only provider model that supports it. A request with this
 * resolution uses this model instead of the requested one.
 */
export const largestResolution = {
  operatingResolution: '2304x2304',
  model: 'General Use (Dynamic)',
} as const;
