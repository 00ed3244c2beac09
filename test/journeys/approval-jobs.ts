/** Starts pipelines that await an approval, and sends decisions about them. */
import { expect } from 'vitest';
import type { CallOptions, StudioBody, TestGateway } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';
import type { JobResource } from '../../studio/jobs/job-view.ts';

interface Step {
  id: string;
  status: string;
  credits: number;
  error: { code: string; message: string } | null;
  data: Record<string, unknown> | null;
}
export type Job = Omit<JobResource, 'result'> & {
  result: { steps: Step[]; skipped: number } | null;
};
type Answer = StudioBody<Job> & { required: number; maximum: number };

/** Path of pipelines. */
export const path = '/api/v1/studio/pipelines';
/** Steps: three pictures, and a film of the chosen one. */
export const art = {
  id: 'art',
  use: 'image/generate',
  body: { prompt: 'a lighthouse', numImages: 3 },
};
const chosen = { $from: 'art', output: 'chosen' };
export const film = {
  id: 'film',
  use: 'video/generate',
  approve: true,
  body: { prompt: 'waves', model: 'seedance-2.0', durationSeconds: 5, imageUrl: chosen },
};

/** Returns functions that start, decide and read pipelines. */
export function createApprovals(gateway: TestGateway) {
  const call = (at: string, options: CallOptions = {}) => gateway.call<Answer>(at, options);
  const read = async (jobId: string): Promise<Job> =>
    (await call(`/api/v1/studio/jobs/${jobId}`)).body.data;
  const decide = (
    jobId: string,
    body: object,
    { step = 'film', ...options }: CallOptions & { step?: string } = {},
  ) => call(`/api/v1/studio/jobs/${jobId}/steps/${step}/decision`, { body, ...options });

  /** Starts a pipeline, and returns its job once a step waits. */
  async function startWaiting(steps: object[] = [art, film]): Promise<Job> {
    const { status, body } = await call(path, { body: { steps, async: true } });
    expect(status, JSON.stringify(body)).toBe(202);
    return until(async () => {
      const job = await read(body.data.jobId);
      return job.phase === 'awaiting_approval' ? job : null;
    });
  }
  const untilEnded = async (jobId: string): Promise<Job> =>
    until(async () => {
      const job = await read(jobId);
      return job.done ? job : null;
    });

  return { call, read, decide, startWaiting, untilEnded };
}
