/**
 * Failures of a provider that responds synchronously: the error, the billing, and the number of
 * calls. All audio capabilities share one client, so each failure is tested with one capability,
 * and a broken response with one capability for each form of response.
 */
import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { useGateway, type Answer } from '../harness/gateway.ts';
import { recordTone } from '../harness/recordings.ts';
import { makeForm } from '../harness/uploads.ts';

const gateway = useGateway({ settled: 'last' });
const speech = await recordTone(1);

type Send = (text: string, key: string) => Promise<Answer>;
const post =
  (path: string, makeBody: (text: string) => object): Send =>
  (text, key) =>
    gateway.call(`/api/v1/studio/${path}`, { body: makeBody(text), key });

const capabilities = {
  voiceover: post('voiceover/generate', (text) => ({ text, title: 'T' })),
  'music plan': post('music/plan', (prompt) => ({ prompt, music_length_ms: 3000 })),
  'music, full': post('music/generate', (prompt) => ({ prompt, coverPrompt: 'a boat' })),
  async transcription(text: string, key: string) {
    const body = makeForm({ file: new File([speech], text) });
    return gateway.call('/api/v1/studio/audio/transcribe', { key, body });
  },
} satisfies Record<string, Send>;
type Name = keyof typeof capabilities;

/** Sends a request that meets a fault; returns the response and what it cost. */
async function callWithFault(name: Name, faults: string, times?: number) {
  const text = `calm ${randomUUID()}`;
  await gateway.sandbox.inject({ match: text, faults, ...(times && { times }) });
  const { key, organizationId } = await gateway.newCaller();
  const { status, body } = await capabilities[name](text, key);
  return {
    status,
    error: body.error,
    submits: (await gateway.sandbox.submits({ match: text })).length,
    balance: await gateway.database.balance(organizationId),
  };
}

// The tests mostly wait, so they wait together.
describe.concurrent('a call to the provider', () => {
  it.each<[name: Name, fault: string, status: number, error: string, submits: number]>([
    ['voiceover', 'policy', 400, 'CONTENT_POLICY', 1],
    ['voiceover', 'submit:422', 400, 'PROVIDER_REJECTED_INPUT', 0],
    ['voiceover', 'reset-after-accept', 500, 'OUTCOME_UNKNOWN', 1],
    ['voiceover', 'reset-before-accept', 500, 'OUTCOME_UNKNOWN', 0],
    ['voiceover', 'submit:500', 500, 'PROVIDER_ERROR', 0],
    ['voiceover', 'proxy-error:502', 500, 'OUTCOME_UNKNOWN', 1],
    ['voiceover', 'truncated-media', 500, 'PROVIDER_ERROR', 1],
    ['voiceover', 'wrong-type-media', 500, 'PROVIDER_ERROR', 1],
    ['voiceover', 'empty-media', 500, 'PROVIDER_ERROR', 1],
    ['music plan', 'truncated-media', 500, 'PROVIDER_ERROR', 1],
    ['music, full', 'truncated-media', 500, 'PROVIDER_ERROR', 1],
    ['transcription', 'policy', 400, 'CONTENT_POLICY', 1],
    ['transcription', 'truncated-media', 500, 'PROVIDER_ERROR', 1],
  ])(
    'for %s with the fault %s returns %i %s, releases the reservation and is not repeated',
    async (name, fault, status, error, submits) => {
      const balance = { available: 100e6, reserved: 0 };
      expect(await callWithFault(name, fault)).toMatchObject({ status, error, submits, balance });
    },
  );

  it.each<[name: Name, fault: string, leastMs: number]>([
    ['voiceover', 'submit:503x1', 0],
    ['transcription', 'submit:503x1', 0],
    // The provider has no free slot; without its Retry-After, the gateway waits three seconds.
    ['voiceover', 'submit:429x1;retry-after=4', 4000],
  ])(
    'for %s is repeated after the certain rejection %s and at least %i ms, and paid once',
    async (name, fault, leastMs) => {
      const startedAt = performance.now();
      expect(await callWithFault(name, fault, 1)).toMatchObject({ status: 200, submits: 1 });
      expect(performance.now() - startedAt).toBeGreaterThan(leastMs);
    },
  );
});
