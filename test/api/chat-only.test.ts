/** A gateway with chat providers only: no FAL_KEY, no ELEVENLABS_API_KEY. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startGateway, type TestGateway } from '../harness/gateway.ts';

let gateway: TestGateway;
beforeAll(async () => {
  const env = { FAL_KEY: '', ELEVENLABS_API_KEY: '', OPENAI_IMAGES_API_KEY: '' };
  // Only chat is configured.
  gateway = await startGateway({ env });
});
afterAll(() => gateway.close());

it('a gateway without Studio providers serves chats, and rejects Studio requests before any credits are reserved', async () => {
  const { caller } = gateway;
  const post = async (path: string, body: object) => {
    const response = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${caller.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return { status: response.status, body: (await response.json()) as object };
  };
  const image = await post('/api/v1/studio/image/generate', { prompt: 'a pier' });
  const message = expect.stringContaining('This gateway has no API key for fal');
  expect(image).toMatchObject({ status: 503, body: { error: 'SERVICE_UNAVAILABLE', message } });
  const chat = { model: 'gpt-5-mini', messages: [{ role: 'user', content: 'hello' }] };
  expect((await post('/api/v1/chat', chat)).status).toBe(200);
  await gateway.expectSettled();
});
