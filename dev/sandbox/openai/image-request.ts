/** Schemas and checks of requests to OpenAI's image endpoints. */
import { z } from 'zod';
import { CallRejectedError } from '../calls/call.ts';
import type { Size } from '../media/size.ts';
import { parseSize } from '../media/size.ts';
import { invalidRequest } from './failures.ts';

const qualities = ['low', 'medium', 'high', 'xhigh', 'max', 'auto'] as const;

const shared = {
  model: z.string(),
  prompt: z.string().min(1).max(32_000),
  n: z.int().min(1).max(10).nullish(),
  size: z.string().nullish(),
  quality: z.enum(qualities).nullish(),
  background: z.enum(['transparent', 'opaque', 'auto']).nullish(),
  output_format: z.enum(['png', 'jpeg', 'webp']).nullish(),
  output_compression: z.int().min(0).max(100).nullish(),
  partial_images: z.int().min(0).max(3).nullish(),
  stream: z.literal(false).nullish(),
  user: z.string().nullish(),
  safety_identifier: z.string().nullish(),
};

/** Schema of a generation's JSON body. */
export const generationBody = z.strictObject({
  ...shared,
  moderation: z.enum(['low', 'auto']).nullish(),
});

/** Schema of an edit's form, without its files. */
export const editFields = z.strictObject({
  ...shared,
  input_fidelity: z.enum(['high', 'low']).nullish(),
});

type ImageParameters = Omit<z.output<typeof generationBody>, 'moderation'>;

interface Model {
  /** True if the model only has the three standard sizes and qualities. */
  hasFixedSizes: boolean;
  qualities: readonly (typeof qualities)[number][];
}

const standardQualities = ['low', 'medium', 'high', 'auto'] as const;
const fixedSizesModel: Model = { hasFixedSizes: true, qualities: standardQualities };
const customSizesModel: Model = { hasFixedSizes: false, qualities: standardQualities };
const fineModel: Model = { hasFixedSizes: false, qualities };

/** Models that OpenAI offers in November 2026; `gpt-image-1` and DALL·E are shut down. */
const models: Record<string, Model> = {
  'gpt-image-1-mini': fixedSizesModel,
  'gpt-image-1.5': fixedSizesModel,
  'chatgpt-image-latest': fixedSizesModel,
  'gpt-image-2': customSizesModel,
  'gpt-image-2.5-flare': fineModel,
  'gpt-image-2.5-sunburst': fineModel,
  'gpt-image-2.6-flare': fineModel,
  'gpt-image-2.6-sunburst': fineModel,
};

/** Finds a model by its id, which may end with the date of a snapshot. */
function findModel(name: string): Model {
  const model = models[name.replace(/-\d{4}-\d{2}-\d{2}$/, '')];
  if (model) return model;
  throw new CallRejectedError(404, {
    code: 'model_not_found',
    message: `The model '${name}' does not exist or you do not have access to it.`,
    param: 'model',
  });
}

const standardSizes = ['1024x1024', '1536x1024', '1024x1536'];
const edgeMax = 3840;
const pixelsMin = 655_360;
const pixelsMax = 8_294_400;

function isCustomSizeAllowed({ width, height }: Size): boolean {
  const pixels = width * height;
  const ratio = Math.max(width, height) / Math.min(width, height);
  const isWhole = width % 16 === 0 && height % 16 === 0;
  const fits = Math.max(width, height) <= edgeMax && pixels >= pixelsMin && pixels <= pixelsMax;
  return isWhole && fits && ratio <= 3;
}

/** Returns the standard size with the shape nearest to that of an image. */
function standardSizeFor({ width, height }: Size): Size {
  const ratio = width / height;
  const text = ratio > 1.25 ? '1536x1024' : ratio < 0.8 ? '1024x1536' : '1024x1024';
  return parseSize(text);
}

function readSize(requested: string, model: Model, shape: Size): Size {
  if (requested === 'auto') return standardSizeFor(shape);
  if (standardSizes.includes(requested)) return parseSize(requested);
  const isText = /^\d{2,4}x\d{2,4}$/.test(requested);
  if (isText && !model.hasFixedSizes && isCustomSizeAllowed(parseSize(requested)))
    return parseSize(requested);
  const supported = [...standardSizes, 'auto'].map((size) => `'${size}'`).join(', ');
  throw invalidRequest({
    code: 'invalid_value',
    message: `Invalid value: '${requested}'. Supported values are: ${supported}.`,
    param: 'size',
  });
}

/** Valid image request. */
export interface ImageRequest extends Size {
  prompt: string;
  count: number;
  quality: 'low' | 'medium' | 'high' | 'xhigh' | 'max';
  format: 'png' | 'jpeg' | 'webp';
  isTransparent: boolean;
}

/**
 * Checks the rules for model, size, quality and format that the schema does not express.
 * @param shape size of the image to edit, whose shape `size: auto` keeps
 * @throws CallRejectedError if a rule is broken
 */
export function readImageRequest(parameters: ImageParameters, shape: Size): ImageRequest {
  const { background, output_format: format, output_compression: compression } = parameters;
  const model = findModel(parameters.model);
  const quality = parameters.quality ?? 'auto';
  if (!model.qualities.includes(quality)) {
    const message = `Quality '${quality}' is not supported by ${parameters.model}.`;
    throw invalidRequest({ code: 'invalid_value', message, param: 'quality' });
  }
  if (background === 'transparent' && format === 'jpeg') {
    const message = 'Transparent background is not supported for output format jpeg.';
    throw invalidRequest({ code: 'invalid_value', message, param: 'background' });
  }
  if ((compression ?? 100) < 100 && (format ?? 'png') === 'png') {
    const message = 'Compression less than 100 is not supported for PNG output format.';
    throw invalidRequest({ code: 'invalid_value', message, param: 'output_compression' });
  }
  return {
    ...readSize(parameters.size ?? 'auto', model, shape),
    prompt: parameters.prompt,
    count: parameters.n ?? 1,
    quality: quality === 'auto' ? 'medium' : quality,
    format: format ?? 'png',
    isTransparent: background === 'transparent',
  };
}
