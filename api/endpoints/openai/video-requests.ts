/** Translates requests of OpenAI's videos API to requests of videoGenerate. */
import { z } from 'zod';
import type { ReceivedFile } from '../../../storage/inputs/recordings.ts';
import { fileBytesMax } from '../../../storage/media-types.ts';
import { findByAnyName } from '../../../studio/models/maker-names.ts';
import { videoModels, type VideoModel } from '../../../studio/models/video-models.ts';
import { fieldError } from '../../../domain/errors.ts';
import { reduceRatio } from '../../../studio/capabilities/image-calls.ts';
import type { Context } from '../../context.ts';
import { readJson } from '../../http/json-body.ts';
import { parseBody } from '../../http/ignored-fields.ts';
import {
  receiveFiles,
  type FileReceiver,
  parseCapabilityFields,
  type RequestBodyReader,
} from '../studio-body.ts';
import { wholeNumber } from '../fields.ts';

const imageReference = z.object({
  file_id: z.string().max(64).optional(),
  image_url: z.string().max(4096).optional(),
});
/** Fields that JSON and form requests share. */
export const videoFields = {
  prompt: z.string().max(32_000),
  model: z.string().max(256).nullish().meta({ example: 'veo' }),
  seconds: wholeNumber(60).nullish(),
  size: z
    .string()
    .max(20)
    .regex(/^\d{3,4}x\d{3,4}$/, 'must be WIDTHxHEIGHT in pixels')
    .nullish(),
};
/** Schema of a JSON request. */
export const videoRequest = z.object({ ...videoFields, input_reference: imageReference.nullish() });
type VideoRequest = z.infer<typeof videoRequest>;
const textBytesMax = 32 * 1024;

/** Reads the body of a video request: JSON, or a form that may contain an image. */
async function readBodyOrForm(
  ctx: Context,
  receiver: FileReceiver,
): Promise<VideoRequest & { image?: ReceivedFile }> {
  if (!ctx.is('multipart/form-data')) {
    return parseBody(ctx, { schema: videoRequest, value: await readJson(ctx) });
  }
  const { texts, files } = await receiveFiles(ctx, receiver, {
    receive: 'receivePicture',
    files: { input_reference: 1 },
    textBytesMax,
    bytesMax: fileBytesMax.image,
  });
  const {
    'input_reference[file_id]': fileId,
    'input_reference[image_url]': url,
    ...others
  } = texts;
  const inputReference = {
    ...(fileId !== undefined && { file_id: fileId }),
    ...(url !== undefined && { image_url: url }),
  };
  const value = {
    ...others,
    ...(Object.keys(inputReference).length > 0 && { input_reference: inputReference }),
  };
  const body = parseBody(ctx, { schema: videoRequest, value, part: 'form' });
  const [file] = files;
  return file ? { ...body, image: file.stored } : body;
}

/** Reads a video request and translates it to the fields of videoGenerate. */
export const readVideoRequest: RequestBodyReader = async (ctx, capability, deps) => {
  const body = await readBodyOrForm(ctx, deps);
  const model = findByAnyName(videoModels, body.model);
  const { input_reference: inputReference, image } = body;
  const images = [image?.contentId, inputReference?.file_id, inputReference?.image_url].filter(
    (url) => url !== undefined,
  );
  if (images.length > 1) {
    const message = `must be one image (received ${images.length})`;
    throw fieldError('CONFLICTING_FIELDS', 'input_reference', message);
  }
  const [imageUrl] = images;
  const fields = {
    prompt: body.prompt,
    model: model.id,
    ...(body.seconds != null && { durationSeconds: body.seconds }),
    ...toFrameFields(body.size, model),
  };
  const parsedRequest = parseCapabilityFields(capability, {
    ...fields,
    ...(imageUrl !== undefined && { imageUrl }),
  });
  if (!image) return parsedRequest;
  return {
    ...parsedRequest,
    storeFiles: async () => ({
      request: { ...parsedRequest.request, imageUrl: (await image.store()).fileId },
    }),
  };
};

/**
 * Translates a size to the capability's fields.
 * @throws GatewayError UNSUPPORTED_PARAMETER if the model does not support the size
 */
function toFrameFields(size: string | null | undefined, { id, parameters }: VideoModel): object {
  if (size == null) return {};
  const [width = 0, height = 0] = size.split('x').map(Number);
  const aspectRatio = reduceRatio(width, height);
  const resolution = `${Math.min(width, height)}p`;
  const ratios = parameters['aspectRatio']?.oneOf ?? [];
  const resolutions = parameters['resolution']?.oneOf;
  if (ratios.includes(aspectRatio) && (!resolutions || resolutions.includes(resolution))) {
    return { aspectRatio, ...(resolutions && { resolution }) };
  }
  const resolutionRule = resolutions ? ` and one of the resolutions ${resolutions.join(', ')}` : '';
  const message = `must have one of the aspect ratios ${ratios.join(', ')}${resolutionRule} with ${id} (received ${aspectRatio} and ${resolution})`;
  throw fieldError('UNSUPPORTED_PARAMETER', 'size', message);
}
