/** Image endpoints of OpenAI: `POST /v1/images/generations` and `POST /v1/images/edits`. */
import sharp from 'sharp';
import { z } from 'zod';
import {
  createJsonEndpoint,
  buildJsonReply,
  type CallContext,
  type CallEndpoint,
  type CallRejectedError,
  type Reply,
} from '../calls/call.ts';
import { describeForm, readForm, type Form, type FormFile } from '../multipart.ts';
import { findFault, applyMediaFault, withoutMarkers } from '../faults.ts';
import { type Media, type MediaInput, MediaInputError, deriveSeed } from '../media/media.ts';
import type { Drawing } from '../media/draw.ts';
import type { Pictures } from '../media/pictures.ts';
import type { Size } from '../media/size.ts';
import { invalidBody, invalidRequest } from './failures.ts';
import {
  editFields,
  generationBody,
  readImageRequest,
  type ImageRequest,
} from './image-request.ts';

const inputsMax = 16;
const inputBytesMax = 50 * 1024 * 1024;
const maskBytesMax = 4 * 1024 * 1024;

/** Output tokens for a 1024×1024 image. `low` to `high` are documented, the others are estimates. */
const outputTokens: Record<ImageRequest['quality'], number> = {
  low: 272,
  medium: 1056,
  high: 4160,
  xhigh: 8320,
  max: 16_640,
};

/** Calculates the input tokens of an image: a base and an amount per tile, as documented for low fidelity. */
function inputTokens({ width, height }: Size): number {
  const shrink = Math.min(1, 512 / Math.min(width, height));
  const tiles = Math.ceil((width * shrink) / 512) * Math.ceil((height * shrink) / 512);
  return 65 + 129 * tiles;
}

function calculateUsage(request: ImageRequest, inputs: readonly Size[], count: number) {
  const textTokens = Math.ceil(request.prompt.length / 4);
  const imageTokens = inputs.reduce((sum, size) => sum + inputTokens(size), 0);
  const share = (request.width * request.height) / 1024 ** 2;
  const output = Math.round(outputTokens[request.quality] * share) * count;
  return {
    input_tokens: textTokens + imageTokens,
    input_tokens_details: { text_tokens: textTokens, image_tokens: imageTokens },
    output_tokens: output,
    output_tokens_details: { image_tokens: output, text_tokens: 0 },
    total_tokens: textTokens + imageTokens + output,
  };
}

interface Job {
  request: ImageRequest;
  /** Sizes of the input images. */
  inputs: Size[];
  make: (drawing: Drawing) => Promise<Media>;
}

async function generateImages(
  { request, inputs, make }: Job,
  context: CallContext,
): Promise<Reply> {
  const { width, height, format, isTransparent, quality } = request;
  const partial = findFault(context.faults, 'partial');
  const count = partial ? Math.min(request.count, Number(partial.argument || 1)) : request.count;
  const drawing = {
    width,
    height,
    format,
    prompt: withoutMarkers(request.prompt),
    seed: deriveSeed(context.requestId),
    transparent: isTransparent,
  };
  const media = await Promise.all(
    Array.from({ length: count }, async (_, index) => make({ ...drawing, index })),
  );
  return buildJsonReply({
    created: Math.floor(Date.now() / 1000),
    background: isTransparent ? 'transparent' : 'opaque',
    data: media.map(({ bytes }) => ({
      b64_json: applyMediaFault(bytes, context.faults).toString('base64'),
    })),
    output_format: format,
    quality,
    size: `${width}x${height}`,
    usage: calculateUsage(request, inputs, count),
  });
}

/** Size for `size: auto` if there is no image to edit. */
const square: Size = { width: 1024, height: 1024 };

/** Creates the endpoint `POST /v1/images/generations`. */
export function generationEndpoint(pictures: Pictures): CallEndpoint {
  return createJsonEndpoint({
    path: /^\/openai\/v1\/images\/generations$/,
    latencyFactor: 1,
    schema: z.preprocess((body) => body ?? {}, generationBody),
    buildError: invalidBody,
    readPrompt: ({ prompt }) => prompt,
    check: (body) => {
      const request = readImageRequest(body, square);
      return async (context) =>
        generateImages({ request, inputs: [], make: pictures.draw }, context);
    },
  });
}

const numericFields = new Set(['n', 'output_compression', 'partial_images']);

/** Converts the fields of a form to JSON values. */
function parseFields(form: Form): Record<string, unknown> {
  return Object.fromEntries(
    [...form.fields].map(([name, [value = '']]) => {
      if (numericFields.has(name)) return [name, Number(value)];
      return [name, name === 'stream' ? value === 'true' : value];
    }),
  );
}

function toInput(field: string, type: string, bytes: Buffer): MediaInput {
  return { field, url: `data:${type};base64,${bytes.toString('base64')}` };
}

const inputTypes = new Set(['image/jpeg', 'image/png', 'image/webp']);

async function readImages(files: readonly FormFile[], pictures: Pictures) {
  const [first, ...others] = files.map(({ field, contentType, bytes }) => {
    if (bytes.length > inputBytesMax) {
      const message = 'Image file is too large.';
      throw invalidRequest({ code: 'image_too_large', message, param: 'image' });
    }
    if (!inputTypes.has(contentType)) {
      const message = `Invalid file 'image': unsupported mimetype ('${contentType}'). Supported file formats are 'image/jpeg', 'image/png', and 'image/webp'.`;
      throw invalidRequest({ code: 'unsupported_file_mimetype', message, param: 'image' });
    }
    return toInput(field, contentType, bytes);
  });
  if (!first) {
    const message = "Missing required parameter: 'image'.";
    throw invalidRequest({ code: 'missing_required_parameter', message, param: 'image' });
  }
  if (others.length >= inputsMax) {
    const message = `At most ${inputsMax} images can be edited.`;
    throw invalidRequest({ code: 'invalid_value', message, param: 'image' });
  }
  const images: [MediaInput, ...MediaInput[]] = [first, ...others];
  const sizes = await Promise.all(
    images.map(async (image, index) => {
      try {
        return await pictures.measure(image);
      } catch (error) {
        if (!(error instanceof MediaInputError)) throw error;
        const message = `Invalid image file or mode for image ${index + 1}.`;
        throw invalidRequest({ code: 'invalid_image_file', message, param: 'image' });
      }
    }),
  );
  return { images, sizes };
}

function invalidMask(message: string): CallRejectedError {
  return invalidRequest({ code: 'invalid_mask', message, param: 'mask' });
}

/** Converts a mask: OpenAI edits where the mask is transparent, the sandbox where it is white. */
async function readMask({ bytes }: FormFile, first: Size): Promise<MediaInput> {
  if (bytes.length > maskBytesMax) throw invalidMask('The mask must be less than 4 MB.');
  const mask = sharp(bytes);
  const metadata = await mask.metadata().catch(() => undefined);
  if (metadata?.format !== 'png') throw invalidMask('The mask must be a PNG.');
  if (!metadata.hasAlpha) throw invalidMask('The mask has no alpha channel.');
  if (metadata.width !== first.width || metadata.height !== first.height) {
    throw invalidMask('The mask must have the size of the image.');
  }
  const edited = mask.extractChannel('alpha').threshold(1).negate();
  return toInput('mask', 'image/png', await edited.png({ compressionLevel: 1 }).toBuffer());
}

function isImage({ field }: FormFile): boolean {
  return field === 'image' || field === 'image[]';
}

/** Creates the endpoint `POST /v1/images/edits`. */
export function editEndpoint(pictures: Pictures): CallEndpoint {
  return {
    path: /^\/openai\/v1\/images\/edits$/,
    latencyFactor: 1,
    read: async (exchange) => {
      const form = await readForm(exchange);
      const fields = parseFields(form);
      const parsed = editFields.safeParse(fields);
      return {
        body: describeForm(form),
        prompt: parsed.data?.prompt ?? '',
        check: async () => {
          if (!parsed.success) throw invalidBody(parsed.error, fields);
          const { images, sizes } = await readImages(form.files.filter(isImage), pictures);
          const shape = sizes[0] ?? square;
          const request = readImageRequest(parsed.data, shape);
          const file = form.files.find(({ field }) => field === 'mask');
          const mask = file && (await readMask(file, shape));
          const make = async (drawing: Drawing) => pictures.edit({ ...drawing, images, mask });
          return async (context) => generateImages({ request, inputs: sizes, make }, context);
        },
      };
    },
  };
}
