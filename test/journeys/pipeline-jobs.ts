/** Requests for pipelines and their jobs. */
import { expect } from 'vitest';
import type { JobResource } from '../../studio/jobs/job-view.ts';
import type { CallOptions, StudioBody, TestGateway } from '../harness/gateway.ts';

interface Step {
  id: string;
  use: string;
  status: string;
  credits: number;
  error: { code: string; message: string; retryable: boolean } | null;
  data: Record<string, unknown> | null;
}
interface Result {
  jobId: string;
  total: number;
  successful: number;
  failed: number;
  skipped: number;
  steps: Step[];
}
/** Job of a pipeline. */
export type PipelineJob = Omit<JobResource, 'result'> & { result: Result | null };
/** Body of the response to a request for a pipeline. */
export type PipelineBody = StudioBody<Result>;

/** Path of pipelines. */
export const path = '/api/v1/studio/pipelines';

/** Returns a reference to the result of a step. */
export const from = (id: string, more: object = {}) => ({ $from: id, ...more });
/** Step that generates a picture. */
export const art = { id: 'art', use: 'image/generate', body: { prompt: 'a lighthouse' } };
/** The same step; its provider takes a minute. */
export const slow = { ...art, id: 'slow', body: { prompt: '[[slow:60s]] a lighthouse' } };

/** Creates the functions that send pipelines to a gateway. */
export function createPipelines(gateway: Pick<TestGateway, 'call'>) {
  const call = (body: object, { at = path, ...options }: CallOptions & { at?: string } = {}) =>
    gateway.call<PipelineBody>(at, { body, ...options });
  /** Starts a pipeline and returns its job when it has ended. */
  const run = async (body: object): Promise<PipelineJob> => {
    const { status, body: answer } = await call({ async: true, ...body });
    expect(status, JSON.stringify(answer)).toBe(202);
    const { body: shown } = await gateway.call<{ data: PipelineJob }>(
      `/api/v1/studio/jobs/${answer.data.jobId}?wait=60`,
    );
    return shown.data;
  };
  return { call, run };
}
