/**
 * Inputs that only the provider can count: documents and pictures. What their bytes do not bound is
 * reserved as the model's context, and the provider's final word is charged, up to the balance.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type TestCaller, type TestGateway } from '../harness/gateway.ts';
import { settledChatOf } from './chat-account.ts';

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startGateway({ worker: false });
});
afterEach(async () => {
  await gateway.api.services.chat.drained();
  await gateway.expectSettled();
});
afterAll(() => gateway.close());

interface ChatBody {
  content: string;
  creditsConsumed: number;
  usage: { inputTokens: number; outputTokens: number };
  error: string;
  required: number;
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

interface Asked {
  part: keyof typeof parts;
  /** Tokens of input that the provider counts. */
  counts: number;
  maxTokens?: number;
  model?: string;
}

function ask(caller: TestCaller, { part, counts, maxTokens = 20, model = 'gpt-4o' }: Asked) {
  const text = `[[counted-input:${counts}]] [[words:5]] what does it say`;
  return gateway.call<ChatBody>('/api/v1/chat', {
    key: caller.key,
    body: {
      model,
      messages: [{ role: 'user', content: [{ type: 'text', text }, parts[part]] }],
      ...(maxTokens > 0 && { max_tokens: maxTokens }),
    },
  });
}

const entriesOf = (caller: TestCaller) =>
  gateway.database.query<{ kind: string; reserved: number }>(
    `SELECT kind, reserved_change::float8 AS reserved FROM ledger_entry
     WHERE organization_id = $1 AND kind <> 'grant' ORDER BY sequence`,
    [caller.organizationId],
  );

describe('a document, or a picture in its original size', () => {
  it.each(['document', 'original'] as const)(
    'is reserved as the context, and charged as the provider counts it (%s)',
    async (part) => {
      const caller = await gateway.newCaller({ credits: 100 });
      const answer = await ask(caller, { part, counts: 110_000 });
      expect(answer.status).toBe(200);
      const charged = 110_000 * price.input + 5 * price.output;
      expect(answer.body.creditsConsumed).toBe(charged / 1e6);
      expect(answer.body.usage).toMatchObject({ inputTokens: 110_000, outputTokens: 5 });
      expect(await settledChatOf(gateway, caller)).toMatchObject({
        state: 'charged',
        amount: context * price.input + 20 * price.output,
        charged,
        counted_by: 'provider',
      });
    },
  );

  it('is refused when the balance does not cover the context', async () => {
    const caller = await gateway.newCaller({ credits: 20 });
    const answer = await ask(caller, { part: 'document', counts: 1000 });
    expect(answer.status).toBe(402);
    expect(answer.body).toMatchObject({
      error: 'INSUFFICIENT_CREDITS',
      required: (context * price.input + 20 * price.output) / 1e6,
    });
  });

  it('leaves the answer the room that it will have: nobody writes a page about a context', async () => {
    const caller = await gateway.newCaller({ credits: 300 });
    const answer = await ask(caller, { part: 'document', counts: 1000, maxTokens: 0 });
    expect(answer.status).toBe(200);
    const requests = await gateway.sandbox.chatRequests('[[counted-input:1000]]');
    expect(requests.at(-1)?.body).toMatchObject({ max_completion_tokens: 16_384 });
    expect(await settledChatOf(gateway, caller)).toMatchObject({
      charged: 1000 * price.input + 5 * price.output,
    });
  });
});

describe('a picture that counts more than any was thought to', () => {
  it.each([true, false])(
    'is charged as the provider counts it (balance left: %s)',
    async (rich) => {
      const caller = await gateway.newCaller({ credits: rich ? 100 : 10 });
      const answer = await ask(caller, { part: 'picture', counts: 60_000 });
      const priceMicro = 60_000 * price.input + 5 * price.output;
      const charged = rich ? priceMicro : 10_000_000;
      expect(answer.status).toBe(200);
      expect(answer.body.creditsConsumed).toBe(charged / 1e6);
      const row = await settledChatOf(gateway, caller);
      expect(row).toMatchObject({ state: 'charged', amount: charged, charged });
      expect(await gateway.database.balance(caller.organizationId)).toMatchObject({
        posted: (rich ? 100_000_000 : 10_000_000) - charged,
        reserved: 0,
      });
      const [reserved = { reserved: 0 }, ...rest] = await entriesOf(caller);
      expect(reserved.reserved).toBeLessThan(5000 * price.input);
      expect(rest).toEqual([
        { kind: 'reserve', reserved: charged - reserved.reserved },
        { kind: 'charge', reserved: -charged },
      ]);
    },
  );

  it('is charged so in a stream too, by both protocols', async () => {
    for (const [model, input] of [
      ['gpt-4o', 250],
      ['claude-sonnet-5', 200],
    ] as const) {
      const caller = await gateway.newCaller({ credits: 100 });
      const text = '[[counted-input:60000]] [[words:5]] what is it';
      const content = [{ type: 'text', text }, parts.picture];
      const asked = await fetch(`${gateway.url}/api/v1/chat`, {
        method: 'POST',
        headers: { authorization: `Bearer ${caller.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          model,
          stream: true,
          max_tokens: 20,
          messages: [{ role: 'user', content }],
        }),
      });
      const charged = 60_000 * input + 5 * 1000;
      expect(await asked.text()).toContain(`"creditsConsumed":${charged / 1e6}`);
      expect(await settledChatOf(gateway, caller)).toMatchObject({ state: 'charged', charged });
    }
  });
});
