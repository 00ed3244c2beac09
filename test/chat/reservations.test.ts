/** Reservations of chats: each pays for the longest answer that its provider is asked for. */
import { expect, it } from 'vitest';
import { chatModels } from '../../chat/models.ts';
import { calculateChatPrice } from '../../chat/bill.ts';
import { useGateway } from '../harness/gateway.ts';
import { readChats, untilAllSettled } from './chat-account.ts';
import { say, sendChat } from './chat-clients.ts';
import { deltasIn, postChat } from './raw-chat.ts';

const expectedTokens = 4096;
const gateway = useGateway({ settled: 'last' });

/** Micro-credits of claude-opus-5 per token. */
const opus = { model: 'claude-opus-5', input: 500, output: 2500 };

const sentLimits = async (match: string): Promise<number[]> =>
  (await gateway.sandbox.chatRequests(match)).map((request) => {
    const { max_tokens, max_completion_tokens } = request as Record<string, number | undefined>;
    return max_tokens ?? max_completion_tokens ?? NaN;
  });

it('with 1,000 credits, 26 chats without max_tokens run at once, each within its reservation', async () => {
  const caller = await gateway.newCaller({ credits: 1000 });
  const content = 'at once [[slow:60s]]';
  const leaving = new AbortController();
  const body = { model: opus.model, messages: say(content), stream: true };
  const posted = [];
  for (let count = 1; count <= 26; count += 1) {
    posted.push(postChat(gateway, caller, { body, signal: leaving.signal }).catch(() => null));
    await expect.poll(() => readChats(gateway, caller)).toHaveLength(count);
  }
  await expect.poll(() => sentLimits(content)).toHaveLength(26);
  const limits = await sentLimits(content);
  const rows = await readChats(gateway, caller);
  // The first: an eighth of the balance.
  expect(rows[0]?.amount).toBe(125_000_000);
  expect(Math.max(...limits)).toBeGreaterThan(49_000);
  expect(Math.min(...limits)).toBeGreaterThanOrEqual(expectedTokens);
  // What was sent as max_tokens is what the reservation pays for.
  const byPrice = (a: number, b: number) => b - a;
  const inputTokens = Math.ceil(content.length / 4) + 4;
  const paid = rows.map(({ amount }) =>
    Math.floor((amount - inputTokens * opus.input) / opus.output),
  );
  expect(limits.toSorted(byPrice)).toEqual(paid.toSorted(byPrice));
  leaving.abort();
  await Promise.all(posted);
  await untilAllSettled(gateway, caller);
});

it.each([
  ['as sent', 10_000, 10_000, 100],
  ['reduced to what half of the balance pays for', 100_000, 19_998, 100],
  ['at least of the expected length', 4096, 4096, 11],
] as const)('max_tokens is %s', async (_name, maxTokens, sent, credits) => {
  const caller = await gateway.newCaller({ credits });
  const content = `limit ${maxTokens}`;
  const max_tokens = maxTokens;
  const answer = await sendChat(gateway, caller, {
    model: opus.model,
    messages: say(content),
    max_tokens,
  });
  expect(answer.status).toBe(200);
  const [limit] = await sentLimits(content);
  expect(limit).toBe(sent);
  const [row] = await readChats(gateway, caller);
  const inputMicro = (Math.ceil(content.length / 4) + 4) * opus.input;
  expect(row?.amount).toBeGreaterThanOrEqual(inputMicro + sent * opus.output);
  expect(row?.amount).toBeLessThan(inputMicro + (sent + 1) * opus.output);
});

it('n chats never promise the same credits: with 40 credits, each answer ends within its reservation', async () => {
  const caller = await gateway.newCaller({ credits: 40 });
  const content = '[[slow:1s]] [[words:15000]] hello';
  const answers = await Promise.all(
    Array.from({ length: 6 }, async () =>
      (
        await postChat(gateway, caller, {
          body: { model: opus.model, messages: say(content), stream: true },
        })
      ).text(),
    ),
  );
  expect(answers.filter((text) => deltasIn(text) > 0).length).toBeGreaterThanOrEqual(3);
  const rows = await untilAllSettled(gateway, caller);
  for (const row of rows) {
    expect(row.charged).toBeLessThanOrEqual(row.amount);
    expect(row.charged).toBe(row.input_tokens * opus.input + row.output_tokens * opus.output);
  }
  const balance = await gateway.database.balance(caller.organizationId);
  expect(balance?.posted).toBe(40_000_000 - rows.reduce((sum, { charged }) => sum + charged, 0));
  expect(balance?.posted).toBeGreaterThanOrEqual(0);
});

it('each model of the catalog reserves by the rule, with and without max_tokens', async () => {
  const { organizationId, keyId } = await gateway.newCaller({ credits: 1000 });
  const free = 1_000_000_000;
  const inputTokens = 5;
  const shared = { organizationId, keyId, requestId: 'req_1', stream: false, metadata: null };
  const now = new Date().toISOString().slice(0, 10);
  const models = chatModels.filter(
    ({ retiresOn = '9999', embedding }) => retiresOn > now && !embedding,
  );
  expect(models.length).toBeGreaterThan(100);
  for (const listed of models) {
    const model = { ...listed, book: null };
    const priceOf = (outputTokens: number) =>
      calculateChatPrice(model, { inputTokens, outputTokens }, gateway.config.USD_PER_CREDIT);
    const { output, context } = model.limit;
    const longest = Math.min(output, Math.max(context - inputTokens, Math.min(output, 1024)));
    for (const maxTokens of [null, 1, 1000, output]) {
      const asked = maxTokens ?? longest;
      const least = priceOf(Math.min(asked, expectedTokens));
      const part = Math.floor(free / (maxTokens === null ? 8 : 2));
      const wanted = Math.min(priceOf(asked), Math.max(least, part), free);
      const messages = [{ role: 'user' as const, content: 'four', path: 'messages.0' }];
      const order = { ...shared, models: [model] as const, body: { messages } };
      const { reserveMicro } = await gateway.api.services.chat.estimate({ ...order, maxTokens });
      expect([model.id, maxTokens, reserveMicro]).toEqual([model.id, maxTokens, wanted]);
    }
  }
});
