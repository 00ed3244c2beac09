/** Pictures as OpenAI's clients ask for them, in the words of our image capabilities. */
import { z } from 'zod';
import type { ImageModel } from '../../../catalog/image-model.ts';
import type { ParameterRules } from '../../../catalog/model-parameters.ts';
import { ratioOf } from '../../../studio/aspect-ratio.ts';
import { fieldError } from '../../../domain/errors.ts';
import type { JsonObject } from '../../../domain/json.ts';

/** Fields of both requests; what is not among them is dropped. */
export const imageFields = {
  prompt: z.string().max(32_000),
  model: z.string().max(256).nullish().meta({ example: 'gpt-image-2' }),
  n: z.coerce.number().int().min(1).max(10).nullish(),
  size: z
    .string()
    .max(20)
    .regex(/^(auto|\d{2,4}x\d{2,4})$/, 'must be auto, or WIDTHxHEIGHT in pixels')
    .nullish(),
  quality: z.enum(['auto', 'low', 'medium', 'high', 'standard', 'hd']).nullish(),
  background: z.enum(['auto', 'transparent', 'opaque']).nullish(),
  output_format: z.enum(['png', 'jpeg', 'webp']).nullish(),
  response_format: z
    .enum(['url', 'b64_json'])
    .nullish()
    .meta({ description: 'If absent you get both: `b64_json`, and a `url` that works for a day.' }),
  stream: z
    .union([z.literal(false), z.literal('false')], 'is not taken here: pictures come whole')
    .nullish(),
};

/** See `imageFields`. */
export type ImageAsked = z.infer<z.ZodObject<typeof imageFields>>;

/**
 * The capability's fields. `rules` are those of what the model is asked to do.
 * @throws GatewayError UNSUPPORTED_PARAMETER for a size that it does not draw
 */
export function ownImageFields(
  asked: ImageAsked,
  model: ImageModel,
  rules: ParameterRules,
): JsonObject {
  const quality = asked.quality === 'hd' ? 'high' : asked.quality;
  return {
    prompt: asked.prompt,
    model: model.id,
    ...(asked.n != null && { numImages: asked.n }),
    ...(asked.output_format != null && { outputFormat: asked.output_format }),
    ...(quality != null && says(quality, rules['quality']?.oneOf) && { quality }),
    ...(asked.background != null &&
      says(asked.background, rules['background']?.oneOf) && { background: asked.background }),
    ...sizeFields(asked.size, model.id, rules),
  };
}

/** Whether a value asks for anything: `auto` and `standard` leave it to a model that has no such word. */
function says(value: string, known: readonly unknown[] = []): boolean {
  return known.includes(value) || !['auto', 'standard'].includes(value);
}

function sizeFields(
  size: string | null | undefined,
  model: string,
  rules: ParameterRules,
): JsonObject {
  if (size == null || size === 'auto') return {};
  const [width = 0, height = 0] = size.split('x').map(Number);
  if (rules['imageSize']) return { imageSize: { width, height } };
  if (rules['width']) return { width, height };
  const ratios = rules['aspectRatio']?.oneOf;
  const aspectRatio = ratioOf(width, height);
  if (ratios?.includes(aspectRatio)) return { aspectRatio };
  const message = ratios
    ? `${model} draws the ratios ${ratios.join(', ')}, this is ${aspectRatio}`
    : `${model} decides the size of an edit itself`;
  throw fieldError('UNSUPPORTED_PARAMETER', 'size', message);
}
