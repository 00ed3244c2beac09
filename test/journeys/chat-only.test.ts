/** A gateway with chat providers only: no FAL_KEY, no ELEVENLABS_API_KEY. */
import { expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({
  env: { FAL_KEY: '', ELEVENLABS_API_KEY: '', OPENAI_IMAGES_API_KEY: '' },
});

it('a gateway without Studio providers serves chats, and rejects Studio requests before any credits are reserved', async () => {
  const image = { body: { prompt: 'a pier' } };
  const message = expect.stringContaining('This gateway has no API key for fal');
  expect(await gateway.call('/api/v1/studio/image/generate', image)).toMatchObject({
    status: 503,
    body: { error: 'SERVICE_UNAVAILABLE', message },
  });
  const chat = { model: 'gpt-5-mini', messages: [{ role: 'user', content: 'hello' }] };
  expect((await gateway.call('/api/v1/chat', { body: chat })).status).toBe(200);
});
