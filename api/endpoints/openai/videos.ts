/**
 * /api/v1/videos: videoGenerate in the format of OpenAI's videos API: create, get, list, download.
 */
import { z } from 'zod';
import type { JobRecord } from '../../../jobs/records/job-reads.ts';
import type { ReceivedFile } from '../../../storage/inputs/request-files.ts';
import { fileBytesMax } from '../../../storage/media-types.ts';
import { defaultsFor } from '../../../catalog/model-parameters.ts';
import { findByAnyName } from '../../../catalog/vendor-names.ts';
import { videoModels, type VideoModel } from '../../../catalog/video-models.ts';
import { fieldError, GatewayError } from '../../../domain/errors.ts';
import { ratioOf } from '../../../studio/aspect-ratio.ts';
import type { JobView } from '../../../studio/job-view.ts';
import { videoGenerate } from '../../../studio/video-generate.ts';
import type { Composition } from '../../composition.ts';
import type { Context } from '../../context.ts';
import { readJson } from '../../http/body.ts';
import { parseWith } from '../../http/parsing.ts';
import { receiveForm } from '../../http/multipart.ts';
import { submitJob } from '../../studio/job-submission.ts';
import type { ReadingDeps, ReadRequestOf } from '../../studio/request-reading.ts';
import { pathId } from '../fields.ts';
import { defineEndpoint, ownAnswer, type Call } from '../endpoint.ts';
import { fileErrors, studioErrors, studioHeaders, tellCredits } from '../studio.ts';
import { artifactsOf, bytesOf, requestOf, inTheirWords } from './finished-job.ts';

const reference = z.object({
  file_id: z.string().max(64).optional(),
  image_url: z.string().max(4096).optional(),
});
const fields = {
  prompt: z.string().max(32_000),
  model: z.string().max(256).nullish().meta({ example: 'veo' }),
  seconds: z.coerce.number().int().min(1).max(60).nullish(),
  size: z
    .string()
    .max(20)
    .regex(/^\d{3,4}x\d{3,4}$/, 'must be WIDTHxHEIGHT in pixels')
    .nullish(),
};
const createRequest = z.object({ ...fields, input_reference: reference.nullish() });
type CreateRequest = z.infer<typeof createRequest>;
const textBytesMax = 32 * 1024;

const video = z
  .object({
    id: z.string(),
    object: z.literal('video'),
    model: z.string().nullable(),
    status: z.enum(['queued', 'in_progress', 'completed', 'failed']),
    progress: z.int(),
    created_at: z.int(),
    completed_at: z.int().nullable(),
    expires_at: z.null(),
    prompt: z.string().nullable(),
    seconds: z.string().nullable(),
    size: z
      .string()
      .nullable()
      .meta({ description: 'WIDTHxHEIGHT in pixels; null until the video is completed.' }),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    remixed_from_video_id: z.null(),
  })
  .meta({ id: 'OpenAIVideo' });
type Video = z.infer<typeof video>;

const storedRequest = z.looseObject({
  prompt: z.string().optional(),
  durationSeconds: z.number().optional(),
});

const unix = (ms: number): number => Math.floor(ms / 1000);

/** Returns a job in the format of OpenAI's videos. */
async function videoOf(job: JobRecord, view: Pick<JobView, 'resource'>): Promise<Video> {
  const { status, error, progress } = await view.resource(job);
  const model = videoModels.find(({ id }) => id === job.model);
  const parameters = storedRequest.parse({
    ...job.request,
    ...defaultsFor(model?.parameters ?? {}, job.request),
  });
  const [artifact] = artifactsOf(job);
  return {
    id: job.id,
    object: 'video',
    model: job.model,
    status: status === 'canceled' ? 'failed' : status,
    // A running job is at most at 99 percent, also when its usual time is over.
    progress: status === 'completed' ? 100 : Math.min(99, Math.round((progress?.share ?? 0) * 100)),
    created_at: unix(job.created_at),
    completed_at: job.completed_at === null ? null : unix(job.completed_at),
    expires_at: null,
    prompt: parameters.prompt ?? null,
    seconds: parameters.durationSeconds === undefined ? null : String(parameters.durationSeconds),
    size: artifact ? `${artifact.width}x${artifact.height}` : null,
    error: error && { code: error.code, message: error.message },
    remixed_from_video_id: null,
  };
}

/** Reads the body, which is JSON or a form with an image. */
async function readBodyOrForm(
  ctx: Context,
  { requestFiles, onReceiving }: ReadingDeps,
): Promise<CreateRequest & { image?: ReceivedFile }> {
  if (!ctx.is('multipart/form-data')) return parseWith(createRequest, await readJson(ctx));
  const { texts, files } = await receiveForm(ctx, {
    fields: ['input_reference'],
    textBytesMax,
    bytesMax: fileBytesMax.image,
    requireRoom: requestFiles.requireRoom,
    keep(stream, field) {
      const receiving = requestFiles.receivePicture({ field, stream }, ctx.state.caller);
      onReceiving(receiving);
      return receiving;
    },
  });
  const { 'input_reference[file_id]': fileId, 'input_reference[image_url]': url } = texts;
  const inputReference = {
    ...(fileId !== undefined && { file_id: fileId }),
    ...(url !== undefined && { image_url: url }),
  };
  const body = parseWith(createRequest, {
    ...texts,
    ...(Object.keys(inputReference).length > 0 && { input_reference: inputReference }),
  });
  const [file] = files;
  return file ? { ...body, image: file.kept } : body;
}

const readBody: ReadRequestOf = async (ctx, capability, deps) => {
  const body = await readBodyOrForm(ctx, deps);
  const model = findByAnyName(videoModels, body.model);
  const { input_reference: inputReference, image } = body;
  const imageUrl = image?.contentId ?? inputReference?.file_id ?? inputReference?.image_url;
  const own = {
    prompt: body.prompt,
    model: model.id,
    ...(body.seconds != null && { durationSeconds: body.seconds }),
    ...frameOf(body.size, model),
  };
  const read = requestOf(capability, { ...own, ...(imageUrl !== undefined && { imageUrl }) });
  if (!image) return read;
  return {
    ...read,
    complete: async () => ({
      request: { ...read.request, imageUrl: (await image.store()).fileId },
    }),
  };
};

/**
 * Translates a size to the capability's fields.
 * @throws GatewayError UNSUPPORTED_PARAMETER if the model lacks the size
 */
function frameOf(size: string | null | undefined, { id, parameters }: VideoModel): object {
  if (size == null) return {};
  const [width = 0, height = 0] = size.split('x').map(Number);
  const aspectRatio = ratioOf(width, height);
  const resolution = `${Math.min(width, height)}p`;
  const ratios = parameters['aspectRatio']?.oneOf ?? [];
  const resolutions = parameters['resolution']?.oneOf;
  if (ratios.includes(aspectRatio) && (!resolutions || resolutions.includes(resolution))) {
    return { aspectRatio, ...(resolutions && { resolution }) };
  }
  const lines = resolutions ? ` and a resolution of ${resolutions.join(', ')}` : '';
  const message = `must have a ratio of ${ratios.join(', ')}${lines} with ${id} (received ${aspectRatio} and ${resolution})`;
  throw fieldError('UNSUPPORTED_PARAMETER', 'size', message);
}

const request = { params: z.object({ jobId: pathId('job') }) };

async function find(
  { caller, params }: Pick<Call<typeof request>, 'caller' | 'params'>,
  { reads }: Pick<Composition, 'reads'>,
): Promise<JobRecord> {
  const job = await reads.read(caller.organizationId, params.jobId);
  if (job?.type !== videoGenerate.type) throw new GatewayError('JOB_NOT_FOUND');
  return job;
}

const imageFile = z.string().meta({ format: 'binary' });

/** Endpoints of OpenAI's video API. */
export const videos = {
  createVideo: defineEndpoint({
    route: 'POST /api/v1/videos',
    scope: 'studio:video',
    errorShape: 'openai',
    summary: 'Generate a video (OpenAI-compatible)',
    description:
      'Creates the same job as POST /api/v1/studio/video/generate. Fields that are not listed here are ignored.',
    request: {
      headers: studioHeaders,
      content: {
        'application/json': {
          schema: createRequest,
          example: { prompt: 'waves at night', model: 'veo', seconds: '4' },
        },
        'multipart/form-data': {
          schema: z.object({ ...fields, input_reference: imageFile.optional() }),
        },
      },
    },
    answer: video,
    errors: [...studioErrors, ...fileErrors],
    async handle({ ctx }, services) {
      const { view } = services;
      const reader = { capability: videoGenerate, readBody };
      const { job } = await inTheirWords(() => submitJob(ctx, reader, services));
      tellCredits(ctx, view.credits(job));
      return videoOf(job, view);
    },
  }),

  getVideo: defineEndpoint({
    route: 'GET /api/v1/videos/:jobId',
    scope: 'studio:read',
    bucket: 'polls',
    errorShape: 'openai',
    summary: 'Get a video (OpenAI-compatible)',
    request,
    answer: video,
    errors: ['JOB_NOT_FOUND'],
    handle: async (call, services) => videoOf(await find(call, services), services.view),
  }),

  listVideos: defineEndpoint({
    route: 'GET /api/v1/videos',
    scope: 'studio:read',
    bucket: 'polls',
    errorShape: 'openai',
    summary: 'List videos, newest first (OpenAI-compatible)',
    request: {
      query: z.object({
        after: pathId('job').optional(),
        limit: z.coerce.number().int().min(1).max(100).default(20),
        order: z.literal('desc', 'must be desc: only newest first is supported').optional(),
      }),
    },
    answer: z.object({
      object: z.literal('list'),
      data: z.array(video),
      first_id: z.string().nullable(),
      last_id: z.string().nullable(),
      has_more: z.boolean(),
    }),
    async handle({ caller, query: { after, limit } }, { reads, view }) {
      const rows = await reads.list(caller.organizationId, {
        type: videoGenerate.type,
        beforeId: after,
        limit: limit + 1,
      });
      const page = rows.slice(0, limit);
      return {
        object: 'list' as const,
        data: await Promise.all(page.map((job) => videoOf(job, view))),
        first_id: page[0]?.id ?? null,
        last_id: page.at(-1)?.id ?? null,
        has_more: rows.length > limit,
      };
    },
  }),

  getVideoContent: defineEndpoint({
    route: 'GET /api/v1/videos/:jobId/content',
    scope: 'studio:read',
    errorShape: 'openai',
    summary: 'Download a video (OpenAI-compatible)',
    request: {
      ...request,
      query: z.object({
        variant: z.literal('video', 'must be video: other variants are not stored').optional(),
      }),
    },
    answer: ownAnswer,
    answers: {
      200: {
        description: 'The video file.',
        type: 'video/mp4',
        schema: z.string().meta({ format: 'binary' }),
      },
    },
    errors: ['JOB_NOT_FOUND', 'JOB_NOT_DONE', 'NOT_FOUND'],
    async handle({ ctx, ...call }, services) {
      const job = await find(call, services);
      if (job.status === 'open') throw new GatewayError('JOB_NOT_DONE');
      const { stream, sizeBytes, contentType } = await bytesOf(artifactsOf(job)[0], services);
      ctx.type = contentType;
      ctx.length = sizeBytes;
      ctx.body = stream;
    },
  }),
};
