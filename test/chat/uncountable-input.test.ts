/**
 * Documents and images, which only the provider can count. An estimate is reserved, and the
 * provider’s count is charged in full, also if the balance becomes negative.
 */
import { describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { untilSettled } from './chat-account.ts';
import { onePixelUrl, sendChat } from './chat-clients.ts';
import { postChat } from './raw-chat.ts';

const gateway = useGateway({ settled: 'last' });

/** Micro-credits of gpt-4o: per token of input and of output; tokens of its context. */
const price = { input: 250, output: 1000 };
const context = 128_000;

const ask = (text: string, part: object) => [
  { role: 'user', content: [{ type: 'text', text }, part] },
];
const pdf = `data:application/pdf;base64,${Buffer.from('%PDF-'.padEnd(9800, 'x')).toString('base64')}`;

const parts = {
  document: { type: 'file', file: { file_data: pdf, filename: 'long.pdf' } },
  original: { type: 'image_url', image_url: { url: onePixelUrl, detail: 'original' } },
  picture: { type: 'image_url', image_url: { url: onePixelUrl } },
};

/** Sends a chat with a part, whose input the provider counts as so many tokens. */
const send = (
  caller: TestCaller,
  part: keyof typeof parts,
  counts: number,
  more: object = { max_tokens: 20 },
) =>
  sendChat(gateway, caller, {
    messages: ask(`[[counted-input:${counts}]] [[words:5]] what does it say`, parts[part]),
    ...more,
  });

it('audio input is charged at the price of audio tokens', async () => {
  const caller = await gateway.newCaller({ credits: 100 });
  const text = '[[counted-input:1000]] [[words:5]] listen';
  const data = Buffer.alloc(9000, 'x').toString('base64');
  const audio = { type: 'input_audio', input_audio: { data, format: 'wav' } };
  const body = { model: 'gemini-2.5-flash', messages: ask(text, audio) };
  const answer = await sendChat(gateway, caller, body);
  expect(answer.status).toBe(200);
  // Text: 41 characters / 4 and 4 for the message, at 30; the other tokens of 1,000 at 100; 5 output
  // tokens at 250.
  const textTokens = Math.ceil(text.length / 4) + 4;
  expect(await untilSettled(gateway, caller)).toMatchObject({
    charged: textTokens * 30 + (1000 - textTokens) * 100 + 5 * 250,
  });
});

describe('a document or an image in its original size', () => {
  it.each(['document', 'original'] as const)(
    'is charged by the provider’s count, although less was reserved (%s)',
    async (part) => {
      const caller = await gateway.newCaller({ credits: 100 });
      const answer = await send(caller, part, 110_000);
      const charged = 110_000 * price.input + 5 * price.output;
      expect(answer).toMatchObject({
        status: 200,
        body: { creditsConsumed: charged / 1e6, usage: { inputTokens: 110_000, outputTokens: 5 } },
      });
      const row = await untilSettled(gateway, caller);
      expect(row).toMatchObject({
        state: 'charged',
        charged,
        counted_by: 'provider',
      });
      expect(row.amount).toBeLessThan(4000 * price.input);
    },
  );

  it('is charged at most for the context of the model', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    await send(caller, 'document', context + 1);
    expect(await untilSettled(gateway, caller)).toMatchObject({
      counted_by: 'provider',
      input_tokens: context,
      charged: context * price.input + 5 * price.output,
    });
  });

  it('leaves the output limit at the model’s maximum', async () => {
    const caller = await gateway.newCaller({ credits: 300 });
    // An eighth of the balance pays for 16,384 tokens.
    const answer = await send(caller, 'document', 1000, {});
    expect(answer.status).toBe(200);
    const requests = await gateway.sandbox.chatRequests('[[counted-input:1000]]');
    expect(requests.at(-1)).toMatchObject({ max_completion_tokens: 16_384 });
    expect(await untilSettled(gateway, caller)).toMatchObject({
      charged: 1000 * price.input + 5 * price.output,
    });
  });
});

describe('an image that counts many times the estimate', () => {
  it.each([true, false])('is charged by the provider’s count (balance left: %s)', async (rich) => {
    const caller = await gateway.newCaller({ credits: rich ? 100 : 5 });
    const answer = await send(caller, 'picture', 40_000);
    const charged = 40_000 * price.input + 5 * price.output;
    expect(answer.status).toBe(200);
    expect(answer.body.creditsConsumed).toBe(charged / 1e6);
    expect(await untilSettled(gateway, caller)).toMatchObject({ state: 'charged', charged });
    expect(await gateway.database.balance(caller.organizationId)).toMatchObject({
      posted: (rich ? 100_000_000 : 5_000_000) - charged,
      reserved: 0,
    });
  });

  it('makes the balance negative: nothing new starts, and the next grant pays it first', async () => {
    const caller = await gateway.newCaller({ credits: 5 });
    await send(caller, 'picture', 40_000);
    const debt = 40_000 * price.input + 5 * price.output - 5_000_000;
    const usage = async () =>
      (await gateway.call('/api/v1/usage', { key: caller.key })).body as unknown as {
        credits: number;
        balance: { available: number; total: number };
      };
    const balance = { available: -debt / 1e6, total: -debt / 1e6, reserved: 0 };
    expect(await usage()).toMatchObject({ credits: -debt / 1e6, balance });
    const paint = () =>
      gateway.call('/api/v1/studio/image/generate', {
        key: caller.key,
        body: { prompt: 'a lighthouse' },
      });
    const starts = [() => send(caller, 'picture', 1), () => paint()];
    for (const start of starts) {
      expect(await start()).toMatchObject({
        status: 402,
        body: { error: 'INSUFFICIENT_CREDITS', available: -debt / 1e6 },
      });
    }
    const grant = (credits: number) =>
      gateway.admin(`/organizations/${caller.organizationId}/grants`, {
        id: `g${credits}`,
        credits,
      });
    await grant(1);
    expect(await usage()).toMatchObject({ credits: 1 - debt / 1e6 });
    for (const start of starts) expect(await start()).toMatchObject({ status: 402 });
    await grant(100);
    expect(await usage()).toMatchObject({ credits: 101 - debt / 1e6 });
    for (const start of starts) expect(await start()).toMatchObject({ status: 200 });
  });

  it('is charged by the provider’s count in a stream too, on both protocols', async () => {
    for (const [model, input] of [
      ['gpt-4o', 250],
      ['claude-sonnet-5', 200],
    ] as const) {
      const caller = await gateway.newCaller({ credits: 100 });
      const text = '[[counted-input:40000]] [[words:5]] what is it';
      const body = { model, stream: true, max_tokens: 20, messages: ask(text, parts.picture) };
      const response = await postChat(gateway, caller, { body });
      const charged = 40_000 * input + 5 * 1000;
      expect(await response.text()).toContain(`"creditsConsumed":${charged / 1e6}`);
      expect(await untilSettled(gateway, caller)).toMatchObject({ state: 'charged', charged });
    }
  });
});
