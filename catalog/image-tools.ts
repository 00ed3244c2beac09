/**
 * Tools that work on a finished picture: upscaling and background removal. Prices: none is published
 * for these upstreams by megapixel or call that two sources agree on, so they are ours (docs/providers.md).
 */
import type { FieldMap, CatalogRow, ParameterRules } from './model-parameters.ts';

interface ToolRoute extends FieldMap {
  provider: string;
  operation: string;
}

/** USD of a picture by its pixels: `usd` for every started step. */
export interface PixelPrice {
  usd: number;
  stepPixels: number;
}

/** A service of image/upscale. */
export interface Upscaler extends CatalogRow {
  parameters: ParameterRules;
  routes: readonly ToolRoute[];
  /** An enlargement that the upstream does not do at once is done in these steps. */
  steps: Readonly<Record<number, readonly number[]>>;
  /** Priced by the pixels of each step's result. */
  price: PixelPrice;
}

/** The edges of each step's result, as multiples of the input's: 3 and 6 for the steps 3 and 2. */
export function enlargementsOf({ steps }: Upscaler, scaleFactor: number): number[] {
  let enlargement = 1;
  return (steps[scaleFactor] ?? [scaleFactor]).map((factor) => (enlargement *= factor));
}

/** No result is larger; the largest picture that is stored and decoded safely. */
export const upscaledPixelsMax = 64_000_000;

/** Ids as in the spec; the first is the default. */
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
        operation: 'fal-ai/topaz/upscale/image',
        rename: { scaleFactor: 'upscale_factor' },
        fixed: { output_format: 'png' },
      },
    ],
    // This upstream enlarges four times at most.
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
        operation: 'fal-ai/seedvr/upscale/image',
        rename: { scaleFactor: 'upscale_factor' },
        fixed: { upscale_mode: 'factor', output_format: 'png' },
      },
    ],
    steps: { 2: [2], 4: [4], 6: [6] },
    price: { usd: 0.02, stepPixels: 8_000_000 },
  },
];

/** A model of image/remove-background. */
export interface BackgroundRemover extends CatalogRow {
  parameters: ParameterRules;
  routes: readonly ToolRoute[];
  /** USD of one picture by `operatingResolution`. */
  usdByResolution: Readonly<Record<string, number>>;
}

const removerParameters: ParameterRules = {
  operatingResolution: { oneOf: ['1024x1024', '2048x2048', '2304x2304'], default: '1024x1024' },
  refineForeground: { oneOf: [true, false], default: true },
};

/** Ids as in the spec; the first is the default. */
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
      operation: 'fal-ai/birefnet/v2',
      fixed: { output_format: 'png' },
    },
  ],
  usdByResolution: { '1024x1024': 0.005, '2048x2048': 0.01, '2304x2304': 0.012 },
}));

/** The only upstream model that works at the largest resolution; it replaces the one asked for. */
export const largestResolution = {
  operatingResolution: '2304x2304',
  model: 'General Use (Dynamic)',
} as const;
