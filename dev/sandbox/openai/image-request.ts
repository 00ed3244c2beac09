/** Requests of OpenAI's image endpoints: parameters, models, and the sizes of each model. */
import { z } from 'zod';
import { CallRefusedError } from '../calls/call.ts';
import type { Size } from '../media/size.ts';
import { sizeOfText } from '../media/size.ts';
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

/** The JSON body of a generation. */
export const generationBody = z.strictObject({
  ...shared,
  moderation: z.enum(['low', 'auto']).nullish(),
});

/** Fields of an edit's form, without its files. */
export const editFields = z.strictObject({
  ...shared,
  input_fidelity: z.enum(['high', 'low']).nullish(),
});

type ImageParameters = Omit<z.output<typeof generationBody>, 'moderation'>;

interface Model {
  /** Models with only the three standard sizes and qualities. */
  isFixed: boolean;
  qualities: readonly (typeof qualities)[number][];
}

const usual = ['low', 'medium', 'high', 'auto'] as const;
const fixed: Model = { isFixed: true, qualities: usual };
const free: Model = { isFixed: false, qualities: usual };
const fine: Model = { isFixed: false, qualities };

/** Models available in November 2026; `gpt-image-1` and DALL·E are shut down. */
const models: Record<string, Model> = {
  'gpt-image-1-mini': fixed,
  'gpt-image-1.5': fixed,
  'chatgpt-image-latest': fixed,
  'gpt-image-2': free,
  'gpt-image-2.5-flare': fine,
  'gpt-image-2.5-sunburst': fine,
  'gpt-image-2.6-flare': fine,
  'gpt-image-2.6-sunburst': fine,
};

/** Ids with the date of a snapshot name the same model. */
function findModel(name: string): Model {
  const model = models[name.replace(/-\d{4}-\d{2}-\d{2}$/, '')];
  if (model) return model;
  throw new CallRefusedError(404, {
    code: 'model_not_found',
    message: `The model '${name}' does not exist or you do not have access to it.`,
    param: 'model',
  });
}

const standardSizes = ['1024x1024', '1536x1024', '1024x1536'];
const edgeMax = 3840;
const pixelsMin = 655_360;
const pixelsMax = 8_294_400;

function isFreeSize({ width, height }: Size): boolean {
  const pixels = width * height;
  const ratio = Math.max(width, height) / Math.min(width, height);
  const isWhole = width % 16 === 0 && height % 16 === 0;
  const fits = Math.max(width, height) <= edgeMax && pixels >= pixelsMin && pixels <= pixelsMax;
  return isWhole && fits && ratio <= 3;
}

/** Returns the standard size whose shape is nearest to that of a picture. */
function standardSizeFor({ width, height }: Size): Size {
  const ratio = width / height;
  const text = ratio > 1.25 ? '1536x1024' : ratio < 0.8 ? '1024x1536' : '1024x1024';
  return sizeOfText(text);
}

function readSize(asked: string, model: Model, shape: Size): Size {
  if (asked === 'auto') return standardSizeFor(shape);
  if (standardSizes.includes(asked)) return sizeOfText(asked);
  const isText = /^\d{2,4}x\d{2,4}$/.test(asked);
  if (isText && !model.isFixed && isFreeSize(sizeOfText(asked))) return sizeOfText(asked);
  const supported = [...standardSizes, 'auto'].map((one) => `'${one}'`).join(', ');
  throw invalidRequest({
    code: 'invalid_value',
    message: `Invalid value: '${asked}'. Supported values are: ${supported}.`,
    param: 'size',
  });
}

/** Valid request. */
export interface ImageOrder extends Size {
  prompt: string;
  count: number;
  quality: 'low' | 'medium' | 'high' | 'xhigh' | 'max';
  format: 'png' | 'jpeg' | 'webp';
  isTransparent: boolean;
}

/**
 * Checks rules beyond the schema: model, size, quality and format together.
 * @param shape of the picture to edit, which `size: auto` keeps
 * @throws CallRefusedError
 */
export function readOrder(parameters: ImageParameters, shape: Size): ImageOrder {
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
