/**
 * Plans the calls of tools that process one picture. image/batch plans the calls of each of its
 * pictures with these functions.
 */
import {
  calculateEnlargements,
  largestResolution,
  upscaledPixelsMax,
  type BackgroundRemover,
  type Upscaler,
} from '../models/image-tools.ts';
import { getMissingDefaults, buildProviderInput, type Fields } from '../models/model-parameters.ts';
import {
  calculateUnitPrice,
  removalPriceRules,
  toPixelPrice,
  upscalePriceRules,
} from '../models/price-rules.ts';
import type { Json } from '../../domain/json.ts';
import type { DraftCall } from '../../domain/draft-plan.ts';
import type { PictureInput } from './image-calls.ts';

const pngOutput = { medium: 'image', format: 'png' } as const;

interface UpscaleOptions {
  fields: Fields;
  source: PictureInput;
  /** Index in the job of the first call of this upscale. */
  firstCall?: number;
}

/**
 * Plans the calls of one upscale: a single call, or one per step if the service needs several
 * steps.
 */
export function planUpscale(service: Upscaler, options: UpscaleOptions): DraftCall[] {
  const { source, firstCall = 0 } = options;
  // Defaults are spread last, because an undefined field must not override its default.
  const fields: Fields = {
    ...options.fields,
    ...getMissingDefaults(service.parameters, options.fields),
  };
  const scaleFactor = Number(fields['scaleFactor']);
  const steps = service.steps[scaleFactor] ?? [scaleFactor];
  const enlargements = calculateEnlargements(service, scaleFactor);
  const [rule] = upscalePriceRules(service);
  return steps.map((factor, index): DraftCall => {
    const enlargement = enlargements[index] ?? factor;
    return {
      quantity: 1,
      required: steps.length > 1,
      output: pngOutput,
      typicalSeconds: service.typicalSeconds,
      unitPriceUsd: {
        inputs: [source],
        rule: {
          ...toPixelPrice(rule, fields),
          kind: 'size',
          subject: 'picture',
          scale: enlargement,
          bySecond: false,
          limits: { resultPixelsMax: upscaledPixelsMax, scaleFactor },
        },
      },
      routes: service.routes.map((route) => ({
        provider: route.provider,
        providerEndpoint: route.providerEndpoint,
        input: {
          ...buildProviderInput(route, { ...fields, scaleFactor: factor, imageUrl: source.url }),
          ...buildModelField(fields),
        },
      })),
      ...(index > 0 && {
        inputFrom: { callIndex: firstCall + index - 1, field: 'image_url' },
      }),
    };
  });
}

/** Returns the provider's input field `model`; empty if the request does not choose a model. */
function buildModelField({ model }: Fields): { model?: Json } {
  return model === undefined ? {} : { model };
}

/** Plans the call of one background removal. */
export function planRemoval(
  model: BackgroundRemover,
  fields: Fields,
  source: PictureInput,
): DraftCall {
  const fieldsWithDefaults: Fields = { ...fields, ...getMissingDefaults(model.parameters, fields) };
  const [rule] = removalPriceRules(model);
  const isLargest =
    fieldsWithDefaults['operatingResolution'] === largestResolution.operatingResolution;
  return {
    quantity: 1,
    required: false,
    output: pngOutput,
    typicalSeconds: model.typicalSeconds,
    sizeOf: source.url,
    unitPriceUsd: calculateUnitPrice(rule, fieldsWithDefaults).usd,
    routes: model.routes.map((route) => ({
      provider: route.provider,
      providerEndpoint: route.providerEndpoint,
      input: {
        ...buildProviderInput(route, { ...fieldsWithDefaults, imageUrl: source.url }),
        model: isLargest ? largestResolution.model : model.id,
      },
    })),
  };
}
