import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import type { CreditsBlock } from '../../domain/credits.ts';
import { useGateway } from '../harness/gateway.ts';
import { hear } from '../harness/recordings.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });

interface Song {
  jobId: string;
  statusUrl: string;
  url: string;
  duration: number;
  title: string | null;
  coverUrl: string | null;
  lyrics: string | null;
}
interface Body {
  data: Song;
  credits: CreditsBlock;
  error: string;
  details: { path: string; message: string }[];
}
interface Plan {
  sections: { duration_ms: number; lines: string[] }[];
}

const songPath = '/api/v1/studio/music/generate';
const song = (body: object) => gateway.call<Body>(songPath, { body });
const plan = (body: object) => gateway.call<Plan & Body>('/api/v1/studio/music/plan', { body });
const planFields = ['negative_global_styles', 'positive_global_styles', 'sections'];
const secondCredits = 1.25;

describe('POST /studio/music/plan', () => {
  it('returns the plan itself, with the credits in headers', async () => {
    const answer = await plan({ prompt: 'a song about tides', music_length_ms: 45_000 });
    expect(answer.status).toBe(200);
    expect(Object.keys(answer.body).toSorted()).toEqual(planFields);
    expect(answer.body.sections[0]).toEqual({
      section_name: expect.any(String),
      positive_local_styles: expect.any(Array),
      negative_local_styles: expect.any(Array),
      duration_ms: expect.any(Number),
      lines: expect.any(Array),
    });
    expect(lengthMs(answer.body)).toBe(45_000);
    expect(answer.headers.get('x-credits-used')).toBe('0.2');
    expect(answer.headers.get('x-credits-cost')).toBe('0.2');
    expect(Number(answer.headers.get('x-credits-remaining'))).toBeGreaterThan(0);
  });

  it('changes the plan in the request', async () => {
    const first = await plan({ prompt: 'a song about tides', music_length_ms: 12_000 });
    const second = await plan({ prompt: 'slower', source_composition_plan: first.body });
    expect(second.status).toBe(200);
    expect(lengthMs(second.body)).toBe(12_000);
  });

  it('is a normal job with `async: true`, and its result is the plan', async () => {
    const accepted = await plan({ prompt: 'a song of ebb', music_length_ms: 9000, async: true });
    expect(accepted.status).toBe(202);
    expect(accepted.body).toMatchObject({ success: true, credits: { used: 0, cost: 0.2 } });
    expect(accepted.headers.get('location')).toBe(accepted.body.data.statusUrl);
    const done = await gateway.untilDone(accepted.body.data.jobId);
    expect(done.body.data).toMatchObject({
      type: 'musicPlan',
      status: 'completed',
      billing: { state: 'charged', charged: 0.2 },
    });
    const result = done.body.data.result as unknown as Plan;
    expect(Object.keys(result).toSorted()).toEqual(planFields);
    expect(lengthMs(result)).toBe(9000);
    const made = await song({ composition_plan: result, mode: 'audio-only' });
    expect([made.status, made.body.data.duration]).toEqual([200, expect.closeTo(9000, -2)]);
  });

  it('is released when the provider fails', async () => {
    const answer = await plan({ prompt: '[[fail:500]] a song' });
    expect(answer.status).toBe(500);
    expect(answer.body.error).toBe('PROVIDER_ERROR');
  });
});

describe('POST /studio/music/generate', () => {
  it('creates a song with title, lyrics and cover art in full mode', async () => {
    const answer = await song({ prompt: 'a calm song about the sea', durationSeconds: 40.5 });
    expect(answer.status).toBe(200);
    const { data, credits } = answer.body;
    expect(data).toEqual({
      url: expect.stringMatching(/^http/),
      expiresAt: expect.any(String),
      storagePath: expect.stringMatching(/\.mp3$/),
      format: 'mp3',
      duration: expect.any(Number),
      title: 'A calm song about',
      model: 'music_v1',
      coverUrl: expect.stringMatching(/\.jpg\?/),
      lyrics: expect.stringContaining('A calm song about'),
    });
    const recording = await hear(data.url);
    expect(Math.abs(recording.durationSeconds - 40.5)).toBeLessThan(0.2);
    expect(Math.abs(data.duration - recording.durationSeconds * 1000)).toBeLessThan(60);
    const cover = await fetch(data.coverUrl ?? '');
    expect(await sharp(Buffer.from(await cover.arrayBuffer())).metadata()).toMatchObject({
      format: 'jpeg',
    });
    expect(credits.used).toBe(41 * secondCredits + 3.9);
  });

  it('creates only the audio in audio mode', async () => {
    const answer = await song({
      prompt: 'a march',
      durationSeconds: 3,
      mode: 'audio-only',
      force_instrumental: true,
    });
    expect(answer.body.data).toEqual({
      url: expect.any(String),
      expiresAt: expect.any(String),
      storagePath: expect.any(String),
      format: 'mp3',
      duration: expect.any(Number),
      title: null,
      model: 'music_v1',
    });
    expect(answer.body.credits.used).toBe(3 * secondCredits);
    expect(await gateway.sandbox.submits({ match: 'a march' })).toHaveLength(1);
  });

  it('charges only the audio when the cover fails, and reports the failed cover', async () => {
    const answer = await song({
      prompt: 'a song with a hidden cover',
      coverPrompt: '[[policy]] a boat',
      durationSeconds: 4,
    });
    expect(answer.status).toBe(200);
    expect(answer.body.data).toMatchObject({
      coverUrl: null,
      coverError: { code: 'CONTENT_POLICY', message: expect.any(String) },
    });
    expect(answer.body.credits.used).toBe(4 * secondCredits);
  });

  it.each([
    ['fails', '[[policy]] a stolen song', 400, 'CONTENT_POLICY'],
    ['breaks off', '[[truncated-media]] a torn song', 500, 'PROVIDER_ERROR'],
  ])(
    'is released and not repeated when the audio %s, with a cover',
    async (_how, prompt, status, error) => {
      const answer = await song({ prompt, coverPrompt: 'a boat', durationSeconds: 10 });
      expect([answer.status, answer.body.error]).toEqual([status, error]);
      expect((await gateway.sandbox.submits({ match: prompt })).length).toBeLessThanOrEqual(1);
    },
  );
});

function lengthMs({ sections }: Plan): number {
  return sections.reduce((sum, section) => sum + section.duration_ms, 0);
}
