import { describe, expect, it } from 'vitest';
import type { CreditsBlock } from '../../domain/credits.ts';
import { searchAttributes } from '../../jobs/contract.ts';
import { useGateway } from '../harness/gateway.ts';
import { hear } from '../harness/recordings.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });

interface Body {
  data: { url: string; storagePath: string; metadata: { chunks: number } };
  credits: CreditsBlock;
  error: string;
  details: { path: string }[];
}

const voiceover = (body: object) =>
  gateway.call<Body>('/api/v1/studio/voiceover/generate', { body });
const dialogue = (body: object) => gateway.call<Body>('/api/v1/studio/dialogue/generate', { body });

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
        title: 'Fox',
        voice: 'george',
        model: 'eleven_multilingual_v2',
        textLength: text.length,
        metadata: { stability: 0.2, similarityBoost: 0.5 },
      },
      credits: { used: cost, cost, remaining: expect.any(Number) },
    });
    const heard = await hear(answer.body.data.url);
    expect(heard).toMatchObject({ mimeType: expect.stringContaining('audio/mpeg'), codec: 'mp3' });
    expect(heard.durationSeconds).toBeCloseTo(text.length / 14, 0);
    const [submit] = await gateway.sandbox.submits({ match: 'quick brown fox' });
    expect(submit?.endpoint).toContain('JBFqnCBsd6RMkjVDRZzb');
    expect(submit?.body['voice_settings']).toEqual({ stability: 0.2, similarity_boost: 0.5 });
  });

  it('returns 202 for an asynchronous request, and the result by polling', async () => {
    const accepted = await gateway.call('/api/v1/studio/voiceover/generate', {
      body: { text: 'Later is fine', title: 'Later', async: true },
    });
    expect(accepted.status).toBe(202);
    const done = await gateway.untilDone(accepted.body.data.jobId);
    expect(done.body.data).toMatchObject({
      type: 'voiceoverGenerate',
      status: 'completed',
      billing: { state: 'charged', charged: 0.13 },
      result: { title: 'Later', textLength: 13 },
    });
    const [call] = await gateway.database.query<{ provider_request_id: string }>(
      `SELECT provider_request_id FROM provider_call WHERE job_id = '${accepted.body.data.jobId}'`,
    );
    // Temporal indexes a search attribute a moment after the workflow has set it.
    await expect
      .poll(async () => {
        const { typedSearchAttributes } = await gateway.api.client.workflow
          .getHandle(accepted.body.data.jobId)
          .describe();
        return typedSearchAttributes.get(searchAttributes.providerRequestId);
      })
      .toEqual([call?.provider_request_id]);
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
    const whole = await hear(answer.body.data.url);
    const heard = await Promise.all(
      parts.map(async (part) =>
        hear(await gateway.api.services.storage.urlOf(part.storage_key, 60_000)),
      ),
    );
    const sum = heard.reduce((total, part) => total + part.packets, 0);
    // A part's file may count a frame that holds no sound; the joined file has none of these.
    expect(whole.packets).toBeGreaterThan(sum - 5);
    expect(whole.packets).toBeLessThanOrEqual(sum);
    expect(whole.durationSeconds).toBeCloseTo(
      heard.reduce((total, part) => total + part.durationSeconds, 0),
      0,
    );
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
    const [job] = await gateway.database.query<{ state: string; charged: number | null }>(
      `SELECT state, charged FROM reservation ORDER BY created_at DESC LIMIT 1`,
    );
    expect(job).toEqual({ state: 'released', charged: null });
  });
});
