/**
 * Documents and images, which only the provider can count. An estimate is reserved, and the
 * provider’s count is charged up to the balance; the operator bears the rest.
 */
import { describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { settledChatOf } from './chat-account.ts';
import { postChat } from './raw-chat.ts';

const gateway = useGateway({ settled: 'last' });

interface ChatBody {
  content: string;
  creditsConsumed: number;
  usage: { inputTokens: number; outputTokens: number };
}

/** Micro-credits of gpt-4o: per token of input and of output; tokens of its context. */
const price = { input: 250, output: 1000 };
const context = 128_000;

const pdf = `data:application/pdf;base64,${Buffer.alloc(9800, 'x').toString('base64')}`;
const png = `data:image/png;base64,${Buffer.alloc(600).toString('base64')}`;
const parts = {
  document: { type: 'file', file: { file_data: pdf, filename: 'long.pdf' } },
  original: { type: 'image_url', image_url: { url: png, detail: 'original' } },
  picture: { type: 'image_url', image_url: { url: png } },
};

interface SentChat {
  part: keyof typeof parts;
  /** Tokens of input that the provider counts. */
  counts: number;
  maxTokens?: number;
}

function send(caller: TestCaller, { part, counts, maxTokens = 20 }: SentChat) {
  const text = `[[counted-input:${counts}]] [[words:5]] what does it say`;
  return gateway.call<ChatBody>('/api/v1/chat', {
    key: caller.key,
    body: {
      model: 'gpt-4o',
      messages: [{ role: 'user', content: [{ type: 'text', text }, parts[part]] }],
      ...(maxTokens > 0 && { max_tokens: maxTokens }),
    },
  });
}

it('audio input is charged at the price of audio tokens', async () => {
  const caller = await gateway.newCaller({ credits: 100 });
  const text = '[[counted-input:1000]] [[words:5]] listen';
  const data = Buffer.alloc(9000, 'x').toString('base64');
  const answer = await gateway.call<ChatBody>('/api/v1/chat', {
    key: caller.key,
    body: {
      model: 'gemini-2.5-flash',
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text },
            { type: 'input_audio', input_audio: { data, format: 'wav' } },
          ],
        },
      ],
    },
  });
  expect(answer.status).toBe(200);
  // Text: 41 characters / 4 and 4 for the message, at 30; the other tokens of 1,000 at 100; 5 output
  // tokens at 250.
  const textTokens = Math.ceil(text.length / 4) + 4;
  expect(await settledChatOf(gateway, caller)).toMatchObject({
    charged: textTokens * 30 + (1000 - textTokens) * 100 + 5 * 250,
  });
});

describe('a document or an image in its original size', () => {
  it.each(['document', 'original'] as const)(
    'is charged by the provider’s count, although less was reserved (%s)',
    async (part) => {
      const caller = await gateway.newCaller({ credits: 100 });
      const answer = await send(caller, { part, counts: 110_000 });
      expect(answer.status).toBe(200);
      const charged = 110_000 * price.input + 5 * price.output;
      expect(answer.body.creditsConsumed).toBe(charged / 1e6);
      expect(answer.body.usage).toMatchObject({ inputTokens: 110_000, outputTokens: 5 });
      const row = await settledChatOf(gateway, caller);
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
    await send(caller, { part: 'document', counts: context + 1 });
    expect(await settledChatOf(gateway, caller)).toMatchObject({ counted_by: 'gateway' });
  });

  it('leaves the output limit at the model’s maximum', async () => {
    const caller = await gateway.newCaller({ credits: 300 });
    const answer = await send(caller, { part: 'document', counts: 1000, maxTokens: 0 });
    expect(answer.status).toBe(200);
    const requests = await gateway.sandbox.chatRequests('[[counted-input:1000]]');
    expect(requests.at(-1)).toMatchObject({ max_completion_tokens: 16_384 });
    expect(await settledChatOf(gateway, caller)).toMatchObject({
      charged: 1000 * price.input + 5 * price.output,
    });
  });
});

describe('an image that counts many times the estimate', () => {
  it.each([true, false])(
    'is charged by the provider’s count, up to the balance (balance left: %s)',
    async (rich) => {
      const caller = await gateway.newCaller({ credits: rich ? 100 : 5 });
      const answer = await send(caller, { part: 'picture', counts: 40_000 });
      const priceMicro = 40_000 * price.input + 5 * price.output;
      const charged = rich ? priceMicro : 5_000_000;
      expect(answer.status).toBe(200);
      expect(answer.body.creditsConsumed).toBe(charged / 1e6);
      const row = await settledChatOf(gateway, caller);
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
      const content = [{ type: 'text', text }, parts.picture];
      const messages = [{ role: 'user', content }];
      const body = { model, stream: true, max_tokens: 20, messages };
      const response = await postChat(gateway, caller, { body });
      const charged = 40_000 * input + 5 * 1000;
      expect(await response.text()).toContain(`"creditsConsumed":${charged / 1e6}`);
      expect(await settledChatOf(gateway, caller)).toMatchObject({ state: 'charged', charged });
    }
  });
});
