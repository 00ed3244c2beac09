/** Video model: `generateVideo`, `startVideo` and `getVideoStatus` of the AI SDK. */
import {
  InvalidArgumentError,
  type Experimental_VideoModelV4,
  type Experimental_VideoModelV4CallOptions,
  type Experimental_VideoModelV4Result,
} from '@ai-sdk/provider';
import type { CompletedJob, Input, Result } from 'studio-gateway-client';
import {
  describeJob,
  downloadFile,
  runJob,
  startJob,
  toCallError,
  toUrl,
  type CallOptions,
  type Studio,
} from './jobs.ts';

/** Id of a video model. */
export type VideoModelId = NonNullable<Input<'video/generate'>['model']> | (string & {});

/** Handle of a started video, which a program can store as JSON. */
export interface StudioOperation {
  jobId: string;
  /** Key under which a repeated start returns the same job. */
  idempotencyKey: string;
}

const capability = 'video/generate';

/** Creates a video model. */
export function createVideoModel(studio: Studio, modelId: VideoModelId): Experimental_VideoModelV4 {
  const describeResponse = () => ({ timestamp: new Date(), modelId, headers: undefined });
  return {
    specificationVersion: 'v4',
    provider: 'studio.video',
    modelId,
    maxVideosPerCall: 1,
    async doGenerate(options) {
      const { body, warnings } = await buildBody(studio, modelId, options);
      const job = await runJob(studio, { capability, body }, options);
      const video = await readVideo(studio, job, options);
      return { ...video, warnings, response: describeResponse() };
    },
    async handleWebhookOption({ webhook }) {
      const { url, received } = await webhook();
      return { webhookUrl: url, received };
    },
    async doStart({ webhookUrl, ...options }) {
      const { body, warnings } = await buildBody(studio, modelId, options);
      if (webhookUrl !== undefined) body['webhookUrl'] = webhookUrl;
      const { jobId, idempotencyKey } = await startJob(studio, { capability, body }, options);
      return {
        operation: { jobId, idempotencyKey },
        warnings,
        providerMetadata: { studio: { jobId } },
        response: describeResponse(),
      };
    },
    async doStatus({ operation, abortSignal }) {
      const response = describeResponse();
      const jobId = readJobId(operation);
      try {
        const job = await studio.client.job<typeof capability>({ jobId }, { signal: abortSignal });
        const { result, error, done } = job;
        if (error) {
          const providerMetadata = { studio: { jobId, credits: job.billing.charged, ...error } };
          return { status: 'error', error: error.message, providerMetadata, response };
        }
        if (result) {
          const video = await readVideo(studio, { ...job, result }, { abortSignal });
          return { status: 'completed', ...video, warnings: [], response };
        }
        if (done) return { status: 'error', error: 'The result of the job was deleted.', response };
        return { status: 'pending', providerMetadata: { studio: { jobId } }, response };
      } catch (error) {
        throw toCallError(error, capability, operation);
      }
    },
  };
}

/** Reads the id of the job from a handle. @throws InvalidArgumentError */
function readJobId(operation: unknown): string {
  if (typeof operation === 'object' && operation !== null && 'jobId' in operation) {
    if (typeof operation.jobId === 'string') return operation.jobId;
  }
  const message = 'operation must be the one that the start returned, with a jobId';
  throw new InvalidArgumentError({ argument: 'operation', message });
}

/** Reads the result of a job. The bytes are read here, because the SDK reads no private addresses. */
async function readVideo(
  studio: Studio,
  job: CompletedJob<typeof capability>,
  options: CallOptions,
): Promise<Pick<Experimental_VideoModelV4Result, 'videos' | 'providerMetadata'>> {
  const { url, contentType, contentCredentials, ...rest }: Result<typeof capability> = job.result;
  const { durationSeconds, width, height, hasAudio, expiresAt } = rest;
  const video = { url, durationSeconds, width, height, hasAudio, expiresAt, contentCredentials };
  return {
    videos: [
      { type: 'binary', data: await downloadFile(studio, url, options), mediaType: contentType },
    ],
    providerMetadata: { studio: { ...describeJob(job), videos: [video] } },
  };
}

async function buildBody(
  studio: Studio,
  modelId: string,
  options: Experimental_VideoModelV4CallOptions,
) {
  const { prompt, aspectRatio, resolution, duration, fps, seed, generateAudio } = options;
  const findFrame = (type: 'first_frame' | 'last_frame') =>
    options.frameImages?.find(({ frameType }) => frameType === type)?.image;
  const first = findFrame('first_frame') ?? options.image;
  const last = findFrame('last_frame');
  const references = options.inputReferences ?? [];
  // A resolution is named by its shorter edge.
  const lines = resolution && Math.min(...resolution.split('x').map(Number));
  const { fields, warnings } = await studio.models.takeSettings(
    { capability, modelId, modelType: 'videoModel' },
    {
      aspectRatio: { value: aspectRatio, field: 'aspectRatio' },
      resolution: { value: lines && `${lines}p`, field: 'resolution' },
      duration: { value: duration, field: 'durationSeconds' },
      fps: { value: fps, field: null },
      seed: { value: seed, field: 'seed' },
      generateAudio: { value: generateAudio, field: 'generateAudio' },
      image: { value: first && (await toUrl(studio, first)), field: 'imageUrl' },
      lastFrame: { value: last && (await toUrl(studio, last)), field: 'endImageUrl' },
      inputReferences: {
        value:
          references.length > 0
            ? await Promise.all(references.map((file) => toUrl(studio, file)))
            : undefined,
        field: 'referenceUrls',
      },
    },
  );
  const body: Record<string, unknown> = {
    ...(prompt !== undefined && { prompt }),
    model: modelId,
    ...fields,
    ...options.providerOptions['studio'],
  };
  return { body, warnings };
}
