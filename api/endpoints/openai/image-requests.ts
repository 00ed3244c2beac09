/** Translates requests of OpenAI's images API to requests of imageGenerate and imageEdit. */
import { z } from 'zod';
import type { ReceivedFile } from '../../../storage/inputs/recordings.ts';
import { fileBytesMax } from '../../../storage/media-types.ts';
import type { ImageModel } from '../../../studio/models/image-model.ts';
import { editModels } from '../../../studio/models/image-models.ts';
import type { ParameterRules } from '../../../studio/models/model-parameters.ts';
import { findByAnyName } from '../../../studio/models/maker-names.ts';
import { readClientUser } from '../../../domain/end-users.ts';
import { fieldError } from '../../../domain/errors.ts';
import type { JsonObject } from '../../../domain/json.ts';
import { reduceRatio } from '../../../studio/capabilities/image-calls.ts';
import { parseBody } from '../../http/ignored-fields.ts';
import { receiveFiles, parseCapabilityFields, type RequestBodyReader } from '../studio-body.ts';
import { wholeNumber } from '../fields.ts';

/** Fields that generation requests and edit requests share. Other fields are ignored. */
export const imageFields = {
  prompt: z.string().max(32_000),
  model: z.string().max(256).nullish().meta({ example: 'gpt-image-2' }),
  n: wholeNumber(10).nullish(),
  size: z
    .string()
    .max(20)
    .regex(/^(auto|\d{2,4}x\d{2,4})$/, 'must be auto, or WIDTHxHEIGHT in pixels')
    .nullish(),
  quality: z.enum(['auto', 'low', 'medium', 'high', 'standard', 'hd']).nullish(),
  background: z.enum(['auto', 'transparent', 'opaque']).nullish(),
  output_format: z.enum(['png', 'jpeg', 'webp']).nullish(),
  response_format: z.enum(['url', 'b64_json']).nullish().meta({
    description:
      'If omitted, the response contains both `b64_json` and a `url` that is valid for one day.',
  }),
  user: z.string().max(512).nullish(),
  stream: z
    .union([z.literal(false), z.literal('false')], 'is not supported: images are not streamed')
    .nullish(),
};

export type ImageRequest = z.infer<z.ZodObject<typeof imageFields>>;

/**
 * Translates an images request to the capability's fields. `rules` are the model's rules for
 * generating or for editing images.
 * @throws GatewayError UNSUPPORTED_PARAMETER for a size that the model does not support
 */
export function toCapabilityFields(
  fields: ImageRequest,
  model: ImageModel,
  rules: ParameterRules,
): JsonObject {
  const quality = fields.quality === 'hd' ? 'high' : fields.quality;
  return {
    prompt: fields.prompt,
    model: model.id,
    ...(fields.n != null && { numImages: fields.n }),
    ...(fields.output_format != null && { outputFormat: fields.output_format }),
    ...(quality != null && isSent(quality, rules['quality']?.oneOf) && { quality }),
    ...(fields.background != null &&
      isSent(fields.background, rules['background']?.oneOf) && { background: fields.background }),
    ...toSizeFields(fields.size, model.id, rules),
  };
}

/**
 * Returns whether a value is sent to the model. `auto` and `standard` are omitted if the model does
 * not accept them.
 */
function isSent(value: string, known: readonly unknown[] = []): boolean {
  return known.includes(value) || !['auto', 'standard'].includes(value);
}

function toSizeFields(
  size: string | null | undefined,
  model: string,
  rules: ParameterRules,
): JsonObject {
  if (size == null || size === 'auto') return {};
  const [width = 0, height = 0] = size.split('x').map(Number);
  if (rules['imageSize']) return { imageSize: { width, height } };
  if (rules['width']) return { width, height };
  const ratios = rules['aspectRatio']?.oneOf;
  const aspectRatio = reduceRatio(width, height);
  if (ratios?.includes(aspectRatio)) return { aspectRatio };
  const message = ratios
    ? `must have one of the aspect ratios ${ratios.join(', ')} with ${model} (received ${aspectRatio})`
    : `is not supported for edits with ${model}: the model chooses the size`;
  throw fieldError('UNSUPPORTED_PARAMETER', 'size', message);
}

const textBytesMax = 32 * 1024;
const form = z.object(imageFields);

/** Stores an image and returns its file id. */
async function storeImage(image: ReceivedFile): Promise<string> {
  return (await image.store()).fileId;
}

/**
 * Returns a function that reads the form of an edit request and passes its fields to `onFields`.
 * Images are identified by their content, so a repeated request must contain the same bytes.
 */
export function createEditReader(onFields: (fields: ImageRequest) => void): RequestBodyReader {
  return async (ctx, capability, receiver) => {
    const { texts, files } = await receiveFiles(ctx, receiver, {
      receive: 'receivePicture',
      files: { image: 10, mask: 1 },
      textBytesMax,
      bytesMax: fileBytesMax.image,
    });
    const fields = parseBody(ctx, { schema: form, value: texts, part: 'form' });
    onFields(fields);
    const model = findByAnyName(editModels, fields.model);
    const filesOfField = (name: string): ReceivedFile[] =>
      files.filter(({ field }) => field === name).map((file) => file.stored);
    const [mask] = filesOfField('mask');
    if (mask && !mask.hasAlpha) {
      const message = `must have an alpha channel: the transparent area is edited (received a ${mask.type.name} without one)`;
      throw fieldError('INVALID_REQUEST', 'mask', message);
    }
    const parsedRequest = parseCapabilityFields(capability, {
      ...toCapabilityFields(fields, model, model.edit ?? {}),
      imageUrls: filesOfField('image').map(({ contentId }) => contentId),
      ...(mask && { maskUrl: mask.contentId, maskArea: 'transparent' }),
    });
    return {
      ...parsedRequest,
      endUserDefault: readClientUser(fields.user),
      storeFiles: async () => ({
        request: {
          ...parsedRequest.request,
          imageUrls: await Promise.all(filesOfField('image').map(storeImage)),
          ...(mask && { maskUrl: await storeImage(mask) }),
        },
      }),
    };
  };
}
