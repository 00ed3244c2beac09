import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { useGateway, type StudioBody } from '../harness/gateway.ts';
import { download } from '../harness/media.ts';
import { fetchRecording } from '../harness/recordings.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });

interface Song {
  jobId: string;
  statusUrl: string;
  url: string;
  duration: number;
  coverUrl: string;
}
interface Plan extends StudioBody<Song> {
  sections: { duration_ms: number }[];
}

const song = (body: object) =>
  gateway.call<StudioBody<Song>>('/api/v1/studio/music/generate', { body });
const plan = (body: object) => gateway.call<Plan>('/api/v1/studio/music/plan', { body });
const sumMs = ({ sections }: Plan) =>
  sections.reduce((sum, section) => sum + section.duration_ms, 0);
/** The price of a second of music. */
const secondCredits = 1.25;

describe('POST /studio/music/plan', () => {
  it('returns the plan itself, with the credits in headers, and changes the plan in a request', async () => {
    const first = await plan({ prompt: 'a song about tides', music_length_ms: 12_000 });
    expect(first.headers.get('x-credits-used')).toBe('0.2');
    expect(first.headers.get('x-credits-cost')).toBe('0.2');
    expect(Number(first.headers.get('x-credits-remaining'))).toBeGreaterThan(0);
    const second = await plan({ prompt: 'slower', source_composition_plan: first.body });
    expect([second.status, sumMs(second.body)]).toEqual([200, 12_000]);
  });

  it('is a normal job with `async: true`, and its result is the plan', async () => {
    const accepted = await plan({ prompt: 'a song of ebb', music_length_ms: 9000, async: true });
    expect(accepted).toMatchObject({
      status: 202,
      body: { success: true, credits: { used: 0, cost: 0.2 } },
    });
    expect(accepted.headers.get('location')).toBe(accepted.body.data.statusUrl);
    const done = await gateway.untilDone(accepted.body.data.jobId);
    expect(done.body.data).toMatchObject({
      type: 'musicPlan',
      status: 'completed',
      billing: { state: 'charged', charged: 0.2 },
    });
    const { result } = done.body.data;
    expect(Object.keys(result).toSorted()).toEqual([
      'negative_global_styles',
      'positive_global_styles',
      'sections',
    ]);
    const made = await song({ composition_plan: result, mode: 'audio-only' });
    expect([made.status, made.body.data.duration]).toEqual([200, expect.closeTo(9000, -2)]);
  });

  it('is released when the provider fails', async () => {
    expect(await plan({ prompt: '[[fail:500]] a song' })).toMatchObject({
      status: 500,
      body: { error: 'PROVIDER_ERROR' },
    });
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
      contentCredentials: 'gateway',
      coverContentCredentials: 'gateway',
    });
    const recording = await fetchRecording(data.url);
    expect(Math.abs(recording.durationSeconds - 40.5)).toBeLessThan(0.2);
    expect(Math.abs(data.duration - recording.durationSeconds * 1000)).toBeLessThan(60);
    expect((await sharp(await download(data.coverUrl)).metadata()).format).toBe('jpeg');
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
      contentCredentials: 'gateway',
    });
    expect(answer.body.credits.used).toBe(3 * secondCredits);
    expect(await gateway.sandbox.submits({ match: 'a march' })).toHaveLength(1);
  });

  it('charges only the audio when the cover fails, and reports the failed cover', async () => {
    const answer = await song({
      // The title of the song is cut within a character of two UTF-16 units. Postgres does not store half of it.
      prompt: '𠮷'.repeat(200),
      coverPrompt: '[[policy]] a boat',
      durationSeconds: 4,
    });
    const coverError = { code: 'CONTENT_POLICY', message: expect.any(String) };
    expect(answer).toMatchObject({
      status: 200,
      body: { data: { coverUrl: null, coverError }, credits: { used: 4 * secondCredits } },
    });
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
