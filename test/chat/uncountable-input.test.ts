/**
 * Documents and images, which only the provider can count. An estimate is reserved, and the
 * provider’s count is charged up to the balance; the operator bears the rest.
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
        loss_micro: 0,
        counted_by: 'provider',
      });
      expect(row.amount).toBeLessThan(4000 * price.input);
    },
  );

  it('is not charged by a count that exceeds the context of the model', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    await send(caller, 'document', context + 1);
    expect(await untilSettled(gateway, caller)).toMatchObject({ counted_by: 'gateway' });
  });

  it('leaves the output limit at the model’s maximum', async () => {
    const caller = await gateway.newCaller({ credits: 300 });
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
  it.each([true, false])(
    'is charged by the provider’s count, up to the balance (balance left: %s)',
    async (rich) => {
      const caller = await gateway.newCaller({ credits: rich ? 100 : 5 });
      const answer = await send(caller, 'picture', 40_000);
      const priceMicro = 40_000 * price.input + 5 * price.output;
      const charged = rich ? priceMicro : 5_000_000;
      expect(answer.status).toBe(200);
      expect(answer.body.creditsConsumed).toBe(charged / 1e6);
      const row = await untilSettled(gateway, caller);
      expect(row).toMatchObject({ state: 'charged', charged, loss_micro: priceMicro - charged });
      expect(await gateway.database.balance(caller.organizationId)).toMatchObject({
        posted: (rich ? 100_000_000 : 5_000_000) - charged,
        reserved: 0,
      });
    },
  );

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
