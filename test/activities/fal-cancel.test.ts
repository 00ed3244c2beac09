/** A cancel at fal: a response that does not show whether fal has received it is an error. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Config } from '../../platform/config.ts';
import fal from '../../providers/fal/index.ts';
import type { Provider } from '../../providers/provider.ts';

let server: Server;
let provider: Provider;
let status = 202;
beforeAll(async () => {
  server = createServer((_request, response) => void response.writeHead(status).end('{}'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || !address) throw new Error('the server listens');
  const variables = { FAL_KEY: 'a-key-of-fal', FAL_QUEUE_URL: `http://127.0.0.1:${address.port}` };
  provider = fal.create({ PROVIDER_VARIABLES: variables } as unknown as Config, {} as never);
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

function cancel() {
  const operation = { endpoint: 'fal-ai/nano-banana', id: 'a-request' };
  return provider.operations?.cancel(operation, AbortSignal.timeout(2000));
}

describe('a cancel at fal', () => {
  it.each([
    [202, 'requested'],
    [400, 'already_done'],
    [404, 'already_done'],
  ])('with the response %i returns %s', async (received, canceled) => {
    status = received;
    expect(await cancel()).toBe(canceled);
  });

  it.each([401, 429, 500, 503])(
    'with the response %i fails, so that it is sent again',
    async (received) => {
      status = received;
      await expect(cancel()).rejects.toMatchObject({ kind: 'unreachable' });
    },
  );
});
