import { describe, expect, it } from 'vitest';
import type { CreditsBlock } from '../../domain/credits.ts';
import { useGateway } from '../harness/gateway.ts';
import { hear } from '../harness/recordings.ts';

const gateway = useGateway({ media: 'full', credits: 100, settled: 'last' });

interface Body {
  data: { url: string; durationSeconds: number };
  credits: CreditsBlock;
  error: string;
}
const effect = (body: object) => gateway.call<Body>('/api/v1/studio/sfx/generate', { body });
const secondCredits = 0.6;

describe('POST /studio/sfx/generate', () => {
  it.each([0.5, 7.5])('creates a sound of %d seconds', async (durationSeconds) => {
    const answer = await effect({ prompt: 'waves', durationSeconds, promptInfluence: 0.7 });
    expect(answer.status).toBe(200);
    expect(answer.body.data).toEqual({
      url: expect.any(String),
      expiresAt: expect.any(String),
      storagePath: expect.stringMatching(/\.mp3$/),
      format: 'mp3',
      prompt: 'waves',
      durationSeconds: expect.any(Number),
      model: 'eleven_text_to_sound_v2',
    });
    const recording = await hear(answer.body.data.url);
    expect(Math.abs(recording.durationSeconds - durationSeconds)).toBeLessThan(0.2);
    expect(answer.body.credits.used).toBeCloseTo(Math.ceil(durationSeconds) * secondCredits, 6);
  });

  it('reserves the longest duration and charges the duration that the model chose', async () => {
    const accepted = await gateway.call('/api/v1/studio/sfx/generate', {
      body: { prompt: '[[slow:600ms]] a door', loop: true, async: true },
    });
    expect(accepted.status).toBe(202);
    expect(accepted.body.credits).toMatchObject({ used: 0, cost: 30 * secondCredits });
    const done = await gateway.untilDone(accepted.body.data.jobId);
    const { result, billing } = done.body.data as unknown as {
      result: Body['data'];
      billing: { charged: number; reserved: number };
    };
    expect(result.durationSeconds).toBeLessThan(7);
    expect(billing.charged).toBeCloseTo(Math.ceil(result.durationSeconds - 0.1) * secondCredits, 6);
  });
});
