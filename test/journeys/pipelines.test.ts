/** POST /api/v1/studio/pipelines: steps that take each other's results, in one job with one price. */
import { describe, expect, it } from 'vitest';
import { useGateway, type StudioBody } from '../harness/gateway.ts';
import { drawDisc } from '../harness/media.ts';
import type { JobResource } from '../../studio/jobs/job-view.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });

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
type Job = Omit<JobResource, 'result'> & { result: Result | null };

const path = '/api/v1/studio/pipelines';
const call = (body: object, headers: Record<string, string> = {}, below = '') =>
  gateway.call<StudioBody<Result>>(`${path}${below}`, { body, headers });

const from = (id: string, more: object = {}) => ({ $from: id, ...more });
const art = { id: 'art', use: 'image/generate', body: { prompt: 'a lighthouse' } };
const film = {
  id: 'film',
  use: 'video/generate',
  body: { prompt: 'waves', model: 'seedance-2.0', durationSeconds: 5, imageUrl: from('art') },
};
const voice = {
  id: 'voice',
  use: 'voiceover/generate',
  body: { text: 'Every night it waits.', title: 'Harbour' },
};

/** Starts a pipeline and returns its job when it has ended. */
async function run(body: object): Promise<Job> {
  const { status, body: answer } = await call({ async: true, ...body });
  expect(status, JSON.stringify(answer)).toBe(202);
  const { body: shown } = await gateway.call<{ data: Job }>(
    `/api/v1/studio/jobs/${answer.data.jobId}?wait=60`,
  );
  return shown.data;
}

describe('a pipeline', () => {
  it('hands results over and settles each step by what it delivered', async () => {
    const estimate = await call({ steps: [art, film, voice] }, {}, '/estimate');
    expect(estimate.status, JSON.stringify(estimate.body)).toBe(200);
    const job = await run({ steps: [art, film, voice] });
    expect(job).toMatchObject({ type: 'pipeline', status: 'completed', model: null });
    expect(job.result, JSON.stringify(job)).toMatchObject({ total: 3, successful: 3, failed: 0 });
    const [picture, video, speech] = job.result?.steps ?? [];
    expect(picture?.data).toMatchObject({ images: [{ contentType: 'image/png' }] });
    expect(video?.data).toMatchObject({ format: 'mp4', durationSeconds: 5 });
    expect(speech?.data).toMatchObject({ format: 'mp3', title: 'Harbour', textLength: 21 });
    const sum = (job.result?.steps ?? []).reduce((total, { credits }) => total + credits, 0);
    expect(job.billing.charged).toBeCloseTo(sum, 6);
    expect(estimate.body.data).toMatchObject({ credits: job.billing.reserved });
    const submits = await gateway.sandbox.submits({ jobId: job.jobId });
    expect(submits).toHaveLength(3);
    const input = submits.find(({ endpoint }) => endpoint.includes('seedance'))?.body;
    expect(JSON.stringify(input)).toContain(`${gateway.url}/`);
    expect(job.steps).toMatchObject([
      { id: 'art', status: 'completed', after: [] },
      { id: 'film', status: 'completed', after: ['art'] },
      { id: 'voice', status: 'completed', after: [] },
    ]);
  });

  it('skips the dependents of a failed step, and charges the others', async () => {
    const broken = { ...art, body: { prompt: '[[policy]] a lighthouse' } };
    const job = await run({ steps: [broken, film, voice] });
    expect(job.status, JSON.stringify(job)).toBe('completed');
    expect(job.result).toMatchObject({ successful: 1, failed: 1, skipped: 1 });
    expect(job.result?.steps).toMatchObject([
      { status: 'failed', credits: 0, error: { code: 'CONTENT_POLICY', retryable: false }, data: null },
      { status: 'skipped', credits: 0, error: { code: 'SKIPPED' } },
      { status: 'completed', error: null },
    ]);
    expect(job.billing.charged).toBeCloseTo(job.result?.steps[2]?.credits ?? 0, 6);
  });

  it('fails and releases everything if no step delivers', async () => {
    const broken = { ...art, body: { prompt: '[[policy]] a lighthouse' } };
    const job = await run({ steps: [broken, film] });
    expect(job).toMatchObject({
      status: 'failed',
      error: { code: 'CONTENT_POLICY' },
      billing: { state: 'released', charged: 0 },
      steps: [{ status: 'failed' }, { status: 'skipped' }],
    });
    expect(job.error?.message).toMatch(/^art: /);
  });

  it('answers synchronously, with the transcript of a voice in another voice', async () => {
    const steps = [
      voice,
      { id: 'words', use: 'audio/transcribe', body: { audioUrl: from('voice') }, maxCredits: 5 },
      {
        id: 'again',
        use: 'voiceover/generate',
        body: { text: from('words', { field: 'text' }), title: 'Again' },
        maxCredits: 20,
      },
    ];
    const { status, body } = await call({ steps });
    expect(status, JSON.stringify(body)).toBe(200);
    const [, words, again] = body.data.steps;
    expect(again, JSON.stringify(body)).toMatchObject({ status: 'completed' });
    expect(again?.data?.['textLength']).toBe(Array.from(String(words?.data?.['text'])).length);
  });

  it('removes a background and upscales the result, priced by the picture', async () => {
    const imageUrl = gateway.media.put('/product.png', await drawDisc(64, 64));
    const steps = [
      { id: 'cut', use: 'image/remove-background', body: { imageUrl } },
      { id: 'big', use: 'image/upscale', body: { imageUrl: from('cut'), scaleFactor: 4 } },
    ];
    const { status, body } = await call({ steps, maxCredits: 8.5 });
    expect(status, JSON.stringify(body)).toBe(200);
    expect(body.data.steps).toMatchObject([
      { status: 'completed', data: { width: 64, persisted: true } },
      { status: 'completed', credits: 8, data: { width: 256 } },
    ]);
  });

  it('generates a song from a composition plan', async () => {
    const steps = [
      { id: 'plan', use: 'music/plan', body: { prompt: 'a calm song', music_length_ms: 10_000 } },
      { id: 'song', use: 'music/generate', body: { composition_plan: from('plan') } },
    ];
    const { status, body } = await call({ steps });
    expect(status, JSON.stringify(body)).toBe(200);
    expect(body.data.steps, JSON.stringify(body)).toMatchObject([
      { status: 'completed', data: { sections: [{}] } },
      { status: 'completed' },
    ]);
  });
});
