/** Video resource of OpenAI's videos API, which describes a job of videoGenerate. */
import { z } from 'zod';
import type { JobRecord } from '../../../studio/jobs/job-reads.ts';
import { getMissingDefaults } from '../../../studio/models/model-parameters.ts';
import { videoModels } from '../../../studio/models/video-models.ts';
import type { JobView } from '../../../studio/jobs/job-view.ts';
import { listArtifacts } from './finished-job.ts';

/** Schema of a video. */
export const video = z
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
      .meta({
        description:
          'WIDTHxHEIGHT in pixels. Until the video is completed, the requested size or the model’s default; null if the model ' +
          'chooses the size.',
      }),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    remixed_from_video_id: z.null(),
  })
  .meta({ id: 'OpenAIVideo' });
type Video = z.infer<typeof video>;

const storedRequest = z.looseObject({
  prompt: z.string().optional(),
  durationSeconds: z.number().optional(),
  imageUrl: z.string().optional(),
  aspectRatio: z.string().optional(),
  resolution: z.string().optional(),
});

/** Shorter side of a video in pixels, if the model has no parameter `resolution`. */
const shortSideDefault = 720;

/** Ratio that the models choose for a request without a picture. */
const ratioDefault = '16:9';

/** Returns the size of a ratio and a resolution; null if a picture determines the ratio. */
function computeSize(request: z.infer<typeof storedRequest>): string | null {
  const { imageUrl, resolution, aspectRatio = imageUrl ? '' : ratioDefault } = request;
  const [, across = '', down = ''] = /^(\d{1,3}):(\d{1,3})$/.exec(aspectRatio) ?? [];
  const ratio = Number(across) / Number(down);
  if (!(ratio > 0)) return null;
  const short = Number(/^\d{3,4}(?=p$)/.exec(resolution ?? '')?.[0] ?? shortSideDefault);
  const long = 2 * Math.round((short * Math.max(ratio, 1 / ratio)) / 2);
  return ratio < 1 ? `${short}x${long}` : `${long}x${short}`;
}

const toUnixSeconds = (ms: number): number => Math.floor(ms / 1000);

/** Converts a job to the video resource of OpenAI's videos API. */
export async function toVideo(job: JobRecord, view: Pick<JobView, 'resource'>): Promise<Video> {
  const { status, error, progress } = await view.resource(job);
  const model = videoModels.find(({ id }) => id === job.model);
  const parameters = storedRequest.parse({
    ...job.request,
    ...getMissingDefaults(model?.parameters ?? {}, job.request),
  });
  const [artifact] = listArtifacts(job);
  return {
    id: job.id,
    object: 'video',
    model: job.model,
    status: status === 'canceled' ? 'failed' : status,
    // The progress of a running job is at most 99 percent, even if the job takes longer than usual.
    progress: status === 'completed' ? 100 : Math.min(99, Math.round((progress?.share ?? 0) * 100)),
    created_at: toUnixSeconds(job.createdAtMs),
    completed_at: job.completedAtMs === null ? null : toUnixSeconds(job.completedAtMs),
    expires_at: null,
    prompt: parameters.prompt ?? null,
    seconds: parameters.durationSeconds === undefined ? null : String(parameters.durationSeconds),
    size:
      artifact?.width && artifact.height
        ? `${artifact.width}x${artifact.height}`
        : computeSize(parameters),
    error: error && { code: error.code, message: error.message },
    remixed_from_video_id: null,
  };
}
