/** Calls of the tools that process one picture; image/batch plans them for each item. */
import {
  largestResolution,
  upscaledPixelsMax,
  type BackgroundRemover,
  type PixelPrice,
  type Upscaler,
} from '../catalog/image-tools.ts';
import { pixelSteps } from '../catalog/image-model.ts';
import { defaultsFor, providerInput, type Fields } from '../catalog/model-parameters.ts';
import { fieldError, assert } from '../domain/errors.ts';
import type { Json } from '../domain/json.ts';
import type { DraftCall, InputFacts, MeasuredOutput } from './capability.ts';
import type { PictureInput } from './image-calls.ts';

const picture = { medium: 'image', format: 'png' } as const;

interface UpscaleOptions {
  fields: Fields;
  source: PictureInput;
  /** Index of the first planned call. */
  firstCall?: number;
}

/** Plans the calls of one upscale: one call, or several steps if the service needs them. */
export function planUpscale(service: Upscaler, options: UpscaleOptions): DraftCall[] {
  const { source, firstCall = 0 } = options;
  // Defaults come last, because an undefined field must not override its default.
  const fields: Fields = { ...options.fields, ...defaultsFor(service.parameters, options.fields) };
  const wanted = Number(fields['scaleFactor']);
  const steps = service.steps[wanted] ?? [wanted];
  return steps.map((factor, index): DraftCall => {
    const enlargement = steps.slice(0, index + 1).reduce((product, step) => product * step, 1);
    return {
      quantity: 1,
      required: steps.length > 1,
      output: picture,
      typicalSeconds: service.typicalSeconds,
      unitPriceUsd: {
        input: source,
        usdOf: (facts) => upscaleUsd(service, { facts, source, wanted, enlargement }),
        outputOf: (facts) => enlarged(service, facts, enlargement),
      },
      routes: service.routes.map((route) => ({
        provider: route.provider,
        operation: route.operation,
        input: {
          ...providerInput(route, { ...fields, scaleFactor: factor, imageUrl: source.url }),
          ...modelOf(fields),
        },
      })),
      ...(index > 0 && {
        inputFrom: { callIndex: firstCall + index - 1, field: 'image_url' },
      }),
    };
  });
}

/** Schema of `model`, which is the provider's own model name. */
function modelOf({ model }: Fields): { model?: Json } {
  return model === undefined ? {} : { model };
}

interface Enlargement {
  facts: InputFacts;
  source: PictureInput;
  wanted: number;
  /** Factor by which this step enlarges the edges of its input. */
  enlargement: number;
}

function upscaleUsd(
  service: Upscaler,
  { facts, source, wanted, enlargement }: Enlargement,
): number {
  const inputPixels = facts.width * facts.height;
  if (inputPixels * wanted ** 2 > upscaledPixelsMax) {
    const message = `${facts.width}×${facts.height} pixels enlarged ${wanted} times are more than ${upscaledPixelsMax}`;
    throw fieldError('INVALID_REQUEST', source.field, message);
  }
  return usdOfPixels(service, inputPixels * enlargement ** 2);
}

function enlarged(service: Upscaler, facts: InputFacts, enlargement: number): MeasuredOutput {
  const width = facts.width * enlargement;
  const height = facts.height * enlargement;
  return { expected: { width, height }, variants: smallerUsd(service, width * height) };
}

function usdOfPixels({ price }: Upscaler, pixels: number): number {
  return price.usd * stepsOf(price, pixels);
}

function smallerUsd({ price }: Upscaler, pixels: number): MeasuredOutput['variants'] {
  return pixelSteps(stepsOf(price, pixels) - 1, price.stepPixels, price.usd);
}

function stepsOf({ stepPixels }: PixelPrice, pixels: number): number {
  return Math.max(1, Math.ceil(pixels / stepPixels));
}

/** Plans the call of one background removal. */
export function planRemoval(
  model: BackgroundRemover,
  fields: Fields,
  source: PictureInput,
): DraftCall {
  const filled: Fields = { ...fields, ...defaultsFor(model.parameters, fields) };
  const { operatingResolution: resolution } = filled;
  assert(typeof resolution === 'string', 'the resolution has a default');
  const unitPriceUsd = model.usdByResolution[resolution];
  assert(unitPriceUsd !== undefined, 'every resolution has a price');
  const largest = resolution === largestResolution.operatingResolution;
  return {
    quantity: 1,
    required: false,
    output: picture,
    typicalSeconds: model.typicalSeconds,
    unitPriceUsd,
    routes: model.routes.map((route) => ({
      provider: route.provider,
      operation: route.operation,
      input: {
        ...providerInput(route, { ...filled, imageUrl: source.url }),
        model: largest ? largestResolution.model : model.id,
      },
    })),
  };
}
