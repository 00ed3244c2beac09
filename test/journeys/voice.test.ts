/** /studio/voiceover/generate, /studio/dialogue/generate and /studio/sfx/generate. */
import { describe, expect, it } from 'vitest';
import { useGateway, type StudioBody } from '../harness/gateway.ts';
import { fetchRecording } from '../harness/recordings.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });

interface Body extends StudioBody {
  data: StudioBody['data'] & { storagePath: string; metadata: { chunks: number } };
}
const post = (path: string, body: object) => gateway.call<Body>(`/api/v1/studio${path}`, { body });
const voiceover = (body: object) => post('/voiceover/generate', body);
const dialogue = (body: object) => post('/dialogue/generate', body);
const effect = (body: object) => post('/sfx/generate', body);

describe('POST /studio/voiceover/generate', () => {
  it('returns exactly the fields of the specification, with an MP3 as long as its text needs', async () => {
    const text = 'The quick brown fox jumps over the lazy dog. '.repeat(2).trim();
    const answer = await voiceover({ text, title: 'Fox', voice: 'george', stability: 0.2 });
    expect(answer.status).toBe(200);
    const cost = text.length * 0.01;
    expect(answer.body).toEqual({
      success: true,
      data: {
        url: expect.stringMatching(/^http/),
        expiresAt: expect.any(String),
        storagePath: expect.stringMatching(/^org_.*\/job_.*\/0-0\.mp3$/),
        format: 'mp3',
        contentCredentials: 'gateway',
        title: 'Fox',
        voice: 'george',
        model: 'eleven_multilingual_v2',
        textLength: text.length,
        metadata: { stability: 0.2, similarityBoost: 0.5 },
      },
      credits: { used: cost, cost, remaining: expect.any(Number) },
    });
    const recording = await fetchRecording(answer.body.data.url);
    expect(recording).toMatchObject({
      mimeType: expect.stringContaining('audio/mpeg'),
      codec: 'mp3',
    });
    expect(recording.durationSeconds).toBeCloseTo(text.length / 14, 0);
    const [submit] = await gateway.sandbox.submits({ match: 'quick brown fox' });
    expect(submit?.endpoint).toContain('JBFqnCBsd6RMkjVDRZzb');
    expect(submit?.body['voice_settings']).toEqual({ stability: 0.2, similarity_boost: 0.5 });
  });
});

describe('POST /studio/dialogue/generate', () => {
  it('is split into requests of 2,000 characters and joined: as long as its parts together', async () => {
    const line = 'Words that are said aloud by somebody, one after the other. '.repeat(12).trim();
    const inputs = ['adam', 'aria', 'lily'].map((voiceId, index) => ({
      voiceId,
      text: `Line ${index}. ${line}`,
    }));
    const characters = inputs.reduce((sum, { text }) => sum + text.length, 0);
    const answer = await dialogue({ title: 'Long', inputs });
    expect(answer.status).toBe(200);
    expect(answer.body.data.metadata.chunks).toBe(2);
    expect(answer.body.credits.used).toBeCloseTo(characters / 100, 6);
    const submits = await gateway.sandbox.submits({ match: 'Words that are said' });
    expect(submits).toHaveLength(2);
    const parts = await gateway.database.query<{ storage_key: string }>(
      `SELECT storage_key FROM artifact WHERE job_id =
        (SELECT job_id FROM artifact WHERE storage_key = $1) AND storage_key <> $1`,
      [answer.body.data.storagePath],
    );
    expect(parts).toHaveLength(2);
    const whole = await fetchRecording(answer.body.data.url);
    const partRecordings = await Promise.all(
      parts.map(async (part) =>
        fetchRecording(await gateway.api.services.storage.urlOf(part.storage_key, 60_000)),
      ),
    );
    const sum = (field: 'packets' | 'durationSeconds') =>
      partRecordings.reduce((total, part) => total + part[field], 0);
    // A part's file may count a frame that holds no sound; the joined file has none of these.
    expect(whole.packets).toBeGreaterThan(sum('packets') - 5);
    expect(whole.packets).toBeLessThanOrEqual(sum('packets'));
    expect(whole.durationSeconds).toBeCloseTo(sum('durationSeconds'), 0);
    expect(whole.durationSeconds).toBeGreaterThan(characters / 14 - 2);
  });

  it('is released as a whole when a part fails', async () => {
    const line = 'A long and patient line that fills the page of a book. '.repeat(34).trim();
    const answer = await dialogue({
      title: 'Half',
      inputs: [
        { voiceId: 'adam', text: line },
        { voiceId: 'aria', text: `[[fail:500]] ${line}` },
      ],
    });
    expect(answer.status).toBe(500);
    const [job] = await gateway.database.query<object>(
      `SELECT state, charged FROM reservation WHERE id = $1`,
      [answer.body.jobId],
    );
    expect(job).toEqual({ state: 'released', charged: null });
  });
});

describe('POST /studio/sfx/generate', () => {
  const secondCredits = 0.6;

  it.each([0.5, 7.5])('creates a sound of %d seconds', async (durationSeconds) => {
    const answer = await effect({ prompt: 'waves', durationSeconds, promptInfluence: 0.7 });
    expect(answer.status).toBe(200);
    expect(answer.body.data).toEqual({
      url: expect.any(String),
      expiresAt: expect.any(String),
      storagePath: expect.stringMatching(/\.mp3$/),
      format: 'mp3',
      contentCredentials: 'gateway',
      prompt: 'waves',
      durationSeconds: expect.any(Number),
      model: 'eleven_text_to_sound_v2',
    });
    const recording = await fetchRecording(answer.body.data.url);
    expect(Math.abs(recording.durationSeconds - durationSeconds)).toBeLessThan(0.2);
    expect(answer.body.credits.used).toBeCloseTo(Math.ceil(durationSeconds) * secondCredits, 6);
  });

  it('reserves the longest duration and charges the duration that the model chose', async () => {
    const accepted = await effect({ prompt: '[[slow:600ms]] a door', loop: true, async: true });
    expect(accepted.status).toBe(202);
    expect(accepted.body.credits).toMatchObject({ used: 0, cost: 30 * secondCredits });
    const { result, billing } = (await gateway.untilDone(accepted.body.data.jobId)).body.data;
    const { durationSeconds } = result as typeof result & { durationSeconds: number };
    expect(durationSeconds).toBeLessThan(7);
    expect(billing.charged).toBeCloseTo(Math.ceil(durationSeconds - 0.1) * secondCredits, 6);
  });
});
