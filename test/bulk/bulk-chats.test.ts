/** Chats as items of bulk jobs. */
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { createBulkCalls } from './bulk-calls.ts';

const gateway = useGateway({ settled: 'last' });
const { start, accept, untilDone, readResults } = createBulkCalls(gateway);
const messages = [{ role: 'user', content: 'Say hello.' }];
const model = 'gpt-5-nano';
const chat = (fields: object = {}, use = 'chat') => ({
  use,
  body: { model, messages, max_tokens: 100, ...fields },
});

describe('chats in a bulk job', () => {
  it('are answered in the format of their endpoint, and charged once', async () => {
    const accepted = await accept({
      items: [
        chat(),
        chat({}, 'chat/completions'),
        { use: 'responses', body: { model, input: 'Say hello.', max_output_tokens: 100 } },
        chat({ model: 'claude-haiku-4-5' }, 'messages'),
        { use: 'embeddings', body: { model: 'text-embedding-3-small', input: ['a', 'b'] } },
        { use: 'image/generate', body: { prompt: 'a lamp' } },
      ],
      metadata: { shop: 'x' },
    });
    const ended = await untilDone(accepted.bulkId);
    const results = (await readResults(accepted.bulkId)).toSorted((a, b) => a.index - b.index);
    console.log(JSON.stringify(results, null, 1), ended);
    expect(ended).toMatchObject({ status: 'completed', counts: { completed: 6 } });
  });
  it.each([['x', chat({ stream: true })]])('%s', async (_, item) => {
    const response = await start({ items: [item] });
    expect(response.body).toMatchObject({ details: [{ path: 'items.0.body.stream' }] });
  });
});
