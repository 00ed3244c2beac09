/** POST /api/v1/images/…: imageGenerate and imageEdit, as OpenAI's clients ask for them and read their pictures. */
import { Readable } from 'node:stream';
import { z } from 'zod';
import type { ReceivedFile } from '../../../storage/inputs/carried-files.ts';
import type { JobRecord } from '../../../jobs/records/job-reads.ts';
import { fileBytesMax } from '../../../storage/media.ts';
import type { ImageModel } from '../../../catalog/image-model.ts';
import { imageModels, editModels } from '../../../catalog/image-models.ts';
import type { ParameterRules } from '../../../catalog/model-parameters.ts';
import { findByAnyName } from '../../../catalog/vendor-names.ts';
import { fieldError } from '../../../domain/errors.ts';
import type { JsonObject } from '../../../domain/json.ts';
import type { StoredArtifact } from '../../../jobs/job-plan.ts';
import { ratioOf } from '../../../studio/presentation.ts';
import { imageEdit } from '../../../studio/image-edit.ts';
import { imageGenerate } from '../../../studio/image-generate.ts';
import type { Composition } from '../../composition.ts';
import type { Context } from '../../context.ts';
import { receiveForm } from '../../http/multipart.ts';
import { parseWith } from '../../http/parsing.ts';
import type { ReadRequestOf } from '../../studio/request-draft.ts';
import { defineOperation, ownAnswer } from '../operation.ts';
import { studioHeaders, fileErrors } from '../studio.ts';
import {
  artifactsOf,
  bytesOf,
  finishedAnswer,
  finishedJob,
  jobErrors,
  requestOf,
  inTheirWords,
} from './finished-job.ts';

/** Fields of both requests; what is not among them is dropped. */
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
  response_format: z
    .enum(['url', 'b64_json'])
    .nullish()
    .meta({ description: 'If absent you get both: `b64_json`, and a `url` that works for a day.' }),
  stream: z
    .union([z.literal(false), z.literal('false')], 'is not supported: images are not streamed')
    .nullish(),
};

type ImageAsked = z.infer<z.ZodObject<typeof imageFields>>;

/**
 * The capability's fields. `rules` are those of what the model is asked to do.
 * @throws GatewayError UNSUPPORTED_PARAMETER for a size that it does not draw
 */
function ownImageFields(asked: ImageAsked, model: ImageModel, rules: ParameterRules): JsonObject {
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

const imagesAnswer = z
  .object({
    created: z.int(),
    data: z.array(z.object({ url: z.url().optional(), b64_json: z.string().optional() })),
  })
  .meta({ id: 'OpenAIImages' });

const shown = z.object({ images: z.array(z.object({ url: z.url() })) });

/** Answers with the pictures of a job; their bytes are on their way only once, piece by piece. */
async function answerImages(
  ctx: Context,
  { job, format }: { job: JobRecord; format: ImageAsked['response_format'] },
  services: Pick<Composition, 'storage' | 'view'>,
): Promise<void> {
  const { images } = shown.parse(await services.view.result(job));
  const artifacts = artifactsOf(job);
  const created = Math.floor((job.completed_at ?? job.created_at) / 1000);
  async function* json(): AsyncGenerator<string> {
    yield `{"created":${created},"data":[`;
    for (const [index, artifact] of artifacts.entries()) {
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
  ctx.type = 'json';
  ctx.body = Readable.from(json(), { objectMode: false });
}

/** Base64 in pieces of whole triplets, so that their texts join. */
async function* base64Of(
  artifact: StoredArtifact,
  services: Pick<Composition, 'storage'>,
): AsyncGenerator<string> {
  const { stream } = await bytesOf(artifact, services);
  const pieces: AsyncIterable<Buffer> = stream;
  let rest = Buffer.alloc(0);
  for await (const piece of pieces) {
    const bytes = Buffer.concat([rest, piece]);
    const whole = bytes.length - (bytes.length % 3);
    yield bytes.toString('base64', 0, whole);
    rest = bytes.subarray(whole);
  }
  yield rest.toString('base64');
}

/** POST /api/v1/images/generations. */
export const imagesGenerations = defineOperation({
  route: 'POST /api/v1/images/generations',
  scope: 'studio:image',
  errorShape: 'openai',
  summary: 'Generate images (OpenAI-compatible)',
  description:
    'The same job as POST /api/v1/studio/image/generate. Fields that are not listed here are ignored.',
  request: {
    headers: studioHeaders,
    body: z.object(imageFields),
    example: { prompt: 'a lighthouse at dawn', model: 'gpt-image-2', size: '1024x1024' },
  },
  answer: ownAnswer,
  answers: { 200: finishedAnswer('The pictures.', imagesAnswer) },
  errors: jobErrors,
  async handle({ ctx, body }, services) {
    const model = findByAnyName(imageModels, body.model);
    const fields = await inTheirWords(() => ownImageFields(body, model, model.generate));
    const job = await finishedJob(
      ctx,
      { capability: imageGenerate, readBody: (_, capability) => requestOf(capability, fields) },
      services,
    );
    return answerImages(ctx, { job, format: body.response_format }, services);
  },
});

/** Ten pictures and a mask. */
const filesMax = 11;
const textBytesMax = 32 * 1024;
const file = z.string().meta({ format: 'binary' });
const form = z.object(imageFields);

/** Stores a picture, and returns the file id of the upload. */
async function storedId(picture: ReceivedFile): Promise<string> {
  return (await picture.store()).fileId;
}

/** Makes the reader of an edit's form; a repeated request is the same if its pictures have the same bytes. */
function readEdit(asked: (fields: ImageAsked) => void): ReadRequestOf {
  return async (ctx, capability, { requestFiles, onReceiving }) => {
    const { texts, files } = await receiveForm(ctx, {
      fields: ['image', 'mask'],
      filesMax,
      textBytesMax,
      bytesMax: fileBytesMax.image,
      requireRoom: (bytes) => requestFiles.requireRoom(ctx.state.caller, bytes),
      keep(stream, field) {
        const receiving = requestFiles.receivePicture({ field, stream }, ctx.state.caller);
        onReceiving(receiving);
        return receiving;
      },
    });
    const fields = parseWith(form, texts);
    asked(fields);
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

/** POST /api/v1/images/edits: a form with pictures and a mask. */
export const imagesEdits = defineOperation({
  route: 'POST /api/v1/images/edits',
  scope: 'studio:image',
  errorShape: 'openai',
  summary: 'Edit images (OpenAI-compatible)',
  description:
    'The same job as POST /api/v1/studio/image/edit. Fields that are not listed here are ignored.',
  request: {
    headers: studioHeaders,
    content: {
      'multipart/form-data': {
        schema: z.object({
          image: z.array(file).meta({ description: '1–10, as `image` or `image[]`, 25 MB each.' }),
          mask: file.optional(),
          ...imageFields,
        }),
      },
    },
  },
  answer: ownAnswer,
  answers: { 200: finishedAnswer('The pictures.', imagesAnswer) },
  errors: [...jobErrors, ...fileErrors],
  async handle({ ctx }, services) {
    let format: ImageAsked['response_format'];
    const readBody = readEdit((fields) => {
      format = fields.response_format;
    });
    const job = await finishedJob(ctx, { capability: imageEdit, readBody }, services);
    return answerImages(ctx, { job, format }, services);
  },
});
