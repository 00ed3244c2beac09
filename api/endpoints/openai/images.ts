/** POST /api/v1/images/…: imageGenerate and imageEdit in the format of OpenAI's images API. */
import { z } from 'zod';
import type { ReceivedFile } from '../../../storage/inputs/request-files.ts';
import type { JobRecord } from '../../../jobs/records/job-reads.ts';
import { fileBytesMax } from '../../../storage/media-types.ts';
import type { ImageModel } from '../../../catalog/image-model.ts';
import { imageModels, editModels } from '../../../catalog/image-models.ts';
import type { ParameterRules } from '../../../catalog/model-parameters.ts';
import { findByAnyName } from '../../../catalog/vendor-names.ts';
import { fieldError } from '../../../domain/errors.ts';
import type { JsonObject } from '../../../domain/json.ts';
import type { StoredArtifact } from '../../../jobs/job-plan.ts';
import { ratioOf } from '../../../studio/aspect-ratio.ts';
import { imageEdit } from '../../../studio/image-edit.ts';
import { imageGenerate } from '../../../studio/image-generate.ts';
import type { Composition } from '../../composition.ts';
import { receiveForm } from '../../http/multipart.ts';
import { parseWith } from '../../http/parsing.ts';
import type { ReadRequestOf } from '../../studio/request-reading.ts';
import { defineEndpoint, ownAnswer } from '../endpoint.ts';
import { studioHeaders, fileErrors } from '../studio.ts';
import {
  artifactsOf,
  bytesOf,
  finishedAnswer,
  jobErrors,
  requestOf,
  inTheirWords,
  sendJson,
  startedJob,
} from './finished-job.ts';

/** Fields of both requests; other fields are ignored. */
const imageFields = {
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
  response_format: z.enum(['url', 'b64_json']).nullish().meta({
    description:
      'If absent, the response has both: `b64_json`, and a `url` that is valid for one day.',
  }),
  stream: z
    .union([z.literal(false), z.literal('false')], 'is not supported: images are not streamed')
    .nullish(),
};

type ImageRequest = z.infer<z.ZodObject<typeof imageFields>>;

/**
 * Translates a request to the capability's fields. `rules` are the model's rules for generating or
 * editing.
 * @throws GatewayError UNSUPPORTED_PARAMETER for a size that the model does not support
 */
function ownImageFields(
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
    ...sizeFields(fields.size, model.id, rules),
  };
}

/**
 * Returns whether a value is sent to the model: `auto` and `standard` are dropped if the model does
 * not know them.
 */
function isSent(value: string, known: readonly unknown[] = []): boolean {
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
    ? `must have one of the ratios ${ratios.join(', ')} with ${model} (received ${aspectRatio})`
    : `is not supported for edits with ${model}: the model chooses the size`;
  throw fieldError('UNSUPPORTED_PARAMETER', 'size', message);
}

const imagesAnswer = z
  .object({
    created: z.int(),
    data: z.array(z.object({ url: z.url().optional(), b64_json: z.string().optional() })),
  })
  .meta({ id: 'OpenAIImages' });

const shown = z.object({ images: z.array(z.object({ url: z.url() })) });

interface ImagesDeps {
  format: ImageRequest['response_format'];
  services: Composition;
}

/**
 * Returns the JSON of a job's images. They are streamed from the storage, so that none is in memory
 * as a whole.
 */
async function* imagesJson(
  job: JobRecord,
  { format, services }: ImagesDeps,
): AsyncGenerator<string> {
  const { images } = shown.parse(await services.view.result(job));
  const created = Math.floor((job.completed_at ?? job.created_at) / 1000);
  yield `{"created":${created},"data":[`;
  for (const [index, artifact] of artifactsOf(job).entries()) {
    const url = images[index]?.url ?? '';
    yield index === 0 ? '{' : ',{';
    if (format !== 'b64_json') yield `"url":${JSON.stringify(url)}`;
    if (format !== 'url') {
      yield format === 'b64_json' ? '"b64_json":"' : ',"b64_json":"';
      yield* base64Of(artifact, services);
      yield '"';
    }
    yield '}';
  }
  yield ']}';
}

/**
 * Streams an artifact as Base64. Each piece encodes a multiple of three bytes, so that the pieces
 * can be joined.
 */
async function* base64Of(
  artifact: StoredArtifact,
  services: Pick<Composition, 'storage'>,
): AsyncGenerator<string> {
  const { stream } = await bytesOf(artifact, services);
  const pieces: AsyncIterable<Buffer> = stream;
  let rest = Buffer.alloc(0);
  for await (const piece of pieces) {
    const bytes = Buffer.concat([rest, piece]);
    const encodedBytes = bytes.length - (bytes.length % 3);
    yield bytes.toString('base64', 0, encodedBytes);
    rest = bytes.subarray(encodedBytes);
  }
  yield rest.toString('base64');
}

/** Endpoint POST /api/v1/images/generations. */
export const imagesGenerations = defineEndpoint({
  route: 'POST /api/v1/images/generations',
  scope: 'studio:image',
  errorShape: 'openai',
  summary: 'Generate images (OpenAI-compatible)',
  description:
    'Creates the same job as POST /api/v1/studio/image/generate. Fields that are not listed here are ignored.',
  request: {
    headers: studioHeaders,
    body: z.object(imageFields),
    example: { prompt: 'a lighthouse at dawn', model: 'gpt-image-2', size: '1024x1024' },
  },
  answer: ownAnswer,
  answers: { 200: finishedAnswer('The images.', imagesAnswer) },
  errors: jobErrors,
  async handle({ ctx, body }, services) {
    const model = findByAnyName(imageModels, body.model);
    const fields = await inTheirWords(() => ownImageFields(body, model, model.generate));
    const job = await startedJob(
      ctx,
      { capability: imageGenerate, readBody: (_, capability) => requestOf(capability, fields) },
      services,
    );
    const format = body.response_format;
    const toJson = (done: JobRecord) => imagesJson(done, { format, services });
    return sendJson(ctx, job, { toJson, services });
  },
});

/** Highest number of files of an edit: ten images and a mask. */
const filesMax = 11;
const textBytesMax = 32 * 1024;
const file = z.string().meta({ format: 'binary' });
const form = z.object(imageFields);

/** Stores an image, and returns the file id of the upload. */
async function storedId(image: ReceivedFile): Promise<string> {
  return (await image.store()).fileId;
}

/**
 * Makes the reader of an edit's form; `onFields` receives its fields. A repeated request is the
 * same if its images have the same bytes.
 */
function readEdit(onFields: (fields: ImageRequest) => void): ReadRequestOf {
  return async (ctx, capability, { requestFiles, onReceiving }) => {
    const { texts, files } = await receiveForm(ctx, {
      fields: ['image', 'mask'],
      filesMax,
      textBytesMax,
      bytesMax: fileBytesMax.image,
      requireRoom: requestFiles.requireRoom,
      keep(stream, field) {
        const receiving = requestFiles.receivePicture({ field, stream }, ctx.state.caller);
        onReceiving(receiving);
        return receiving;
      },
    });
    const fields = parseWith(form, texts);
    onFields(fields);
    const model = findByAnyName(editModels, fields.model);
    const received = (name: string): ReceivedFile[] =>
      files.filter(({ field }) => field === name).map((each) => each.kept);
    const [mask] = received('mask');
    const read = requestOf(capability, {
      ...ownImageFields(fields, model, model.edit ?? {}),
      imageUrls: received('image').map(({ contentId }) => contentId),
      ...(mask && { maskUrl: mask.contentId }),
    });
    return {
      ...read,
      complete: async () => ({
        request: {
          ...read.request,
          imageUrls: await Promise.all(received('image').map(storedId)),
          ...(mask && { maskUrl: await storedId(mask) }),
        },
      }),
    };
  };
}

/** Endpoint POST /api/v1/images/edits, whose body is a form with images and a mask. */
export const imagesEdits = defineEndpoint({
  route: 'POST /api/v1/images/edits',
  scope: 'studio:image',
  errorShape: 'openai',
  summary: 'Edit images (OpenAI-compatible)',
  description:
    'Creates the same job as POST /api/v1/studio/image/edit. Fields that are not listed here are ignored.',
  request: {
    headers: studioHeaders,
    content: {
      'multipart/form-data': {
        schema: z.object({
          image: z.array(file).meta({
            description: '1–10 images of up to 25 MB each, in fields named `image` or `image[]`.',
          }),
          mask: file.optional(),
          ...imageFields,
        }),
      },
    },
  },
  answer: ownAnswer,
  answers: { 200: finishedAnswer('The images.', imagesAnswer) },
  errors: [...jobErrors, ...fileErrors],
  async handle({ ctx }, services) {
    let format: ImageRequest['response_format'];
    const readBody = readEdit((fields) => {
      format = fields.response_format;
    });
    const job = await startedJob(ctx, { capability: imageEdit, readBody }, services);
    const toJson = (done: JobRecord) => imagesJson(done, { format, services });
    return sendJson(ctx, job, { toJson, services });
  },
});
