/**
 * Failures of providers that respond synchronously: for each capability, the error, the billing,
 * and the number of calls.
 */
import { randomUUID } from 'node:crypto';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { useGateway, type StudioBody } from '../harness/gateway.ts';
import { recordTone } from '../harness/recordings.ts';
import { portion } from '../harness/slow.ts';

const gateway = useGateway();
let speech: Uint8Array<ArrayBuffer>;
beforeAll(async () => {
  speech = await recordTone(1);
});
afterEach(async () => {
  await gateway.sandbox.clearFaults();
  await gateway.expectSettled();
});

type Send = (words: string) => Promise<{ status: number; body: StudioBody }>;
const post =
  (path: string, bodyOf: (words: string) => object): Send =>
  (words) =>
    gateway.call(`/api/v1/studio/${path}`, { body: bodyOf(words) });

const capabilities: [string, Send][] = [
  ['voiceover', post('voiceover/generate', (text) => ({ text, title: 'T' }))],
  [
    'dialogue',
    post('dialogue/generate', (text) => ({ title: 'T', inputs: [{ voiceId: 'adam', text }] })),
  ],
  ['music plan', post('music/plan', (prompt) => ({ prompt, music_length_ms: 3000 }))],
  [
    'music, audio only',
    post('music/generate', (prompt) => ({ prompt, durationSeconds: 3, mode: 'audio-only' })),
  ],
  [
    'music, full',
    post('music/generate', (prompt) => ({ prompt, durationSeconds: 3, coverPrompt: 'a boat' })),
  ],
  ['sound effect', post('sfx/generate', (prompt) => ({ prompt, durationSeconds: 0.5 }))],
  [
    'transcription',
    async (words) => {
      const form = new FormData();
      form.append('file', new Blob([speech]), words);
      const answer = await fetch(`${gateway.url}/api/v1/studio/audio/transcribe`, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.caller.key}` },
        body: form,
      });
      return { status: answer.status, body: (await answer.json()) as StudioBody };
    },
  ],
];

interface Case {
  fault: string;
  status: number;
  error: string;
  /** Paid submits that the provider saw. */
  accepted: number;
}
const cases: Case[] = [
  { fault: 'policy', status: 400, error: 'CONTENT_POLICY', accepted: 1 },
  { fault: 'submit:422', status: 400, error: 'PROVIDER_REJECTED_INPUT', accepted: 0 },
  { fault: 'reset-after-accept', status: 500, error: 'OUTCOME_UNKNOWN', accepted: 1 },
  { fault: 'reset-before-accept', status: 500, error: 'OUTCOME_UNKNOWN', accepted: 0 },
  { fault: 'submit:500', status: 500, error: 'PROVIDER_ERROR', accepted: 0 },
  { fault: 'proxy-error:502', status: 500, error: 'OUTCOME_UNKNOWN', accepted: 1 },
  { fault: 'truncated-media', status: 500, error: 'PROVIDER_ERROR', accepted: 1 },
];

describe.each(capabilities)('%s', (name, send) => {
  const row = capabilities.findIndex(([capability]) => capability === name);
  it.each([...portion(cases, row)])(
    '$fault: returns $error and releases the reservation',
    async ({ fault, status, error, accepted }) => {
      const words = `calm ${randomUUID()}`;
      await gateway.sandbox.inject({ match: words, faults: fault });
      const before = await gateway.database.balance(gateway.caller.organizationId);
      const answer = await send(words);
      expect(answer.body.error).toBe(error);
      expect(answer.status).toBe(status);
      const seen = await gateway.sandbox.submits({ match: words });
      expect(seen).toHaveLength(accepted);
      const after = await gateway.database.balance(gateway.caller.organizationId);
      expect(after).toEqual(before);
    },
  );

  it('retries a call that the provider certainly rejected, and charges once', async () => {
    const words = `again ${randomUUID()}`;
    await gateway.sandbox.inject({ match: words, faults: 'submit:503x1', times: 1 });
    const answer = await send(words);
    expect(answer.status).toBe(200);
    expect(await gateway.sandbox.submits({ match: words })).toHaveLength(1);
  });
});

describe('a provider with no free slot', () => {
  it('is called again after its Retry-After', async () => {
    const startedAt = performance.now();
    const answer = await gateway.call('/api/v1/studio/voiceover/generate', {
      body: { text: '[[submit:429x1;retry-after=1]] a busy voice', title: 'T' },
    });
    expect(answer.status).toBe(200);
    expect(performance.now() - startedAt).toBeGreaterThan(1000);
    expect(await gateway.sandbox.submits({ match: 'a busy voice' })).toHaveLength(1);
  });
});

describe.each([
  ['voiceover', 'wrong-type-media'],
  ['voiceover', 'empty-media'],
  ['sound effect', 'wrong-type-media'],
  ['music, full', 'empty-media'],
])('%s with %s', (name, fault) => {
  it('returns PROVIDER_ERROR and is not called again', async () => {
    const words = `spoiled ${randomUUID()}`;
    await gateway.sandbox.inject({ match: words, faults: fault });
    const send = capabilities.find(([capability]) => capability === name)?.[1];
    const answer = await send?.(words);
    expect(answer?.body.error).toBe('PROVIDER_ERROR');
    expect(await gateway.sandbox.submits({ match: words })).toHaveLength(1);
  });
});
