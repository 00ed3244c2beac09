/** A cancel at fal: a response that does not show whether fal has received it is an error. */
import { describe, expect, it } from 'vitest';
import type { Config } from '../../platform/config.ts';
import fal from '../../providers/fal/index.ts';
import { during } from '../harness/during.ts';
import { startHttpServer } from '../harness/http-server.ts';

let status = 202;
const server = during(() =>
  startHttpServer((_request, response) => void response.writeHead(status).end('{}')),
);

function cancel() {
  const variables = { FAL_KEY: 'a-key-of-fal', FAL_QUEUE_URL: server.url };
  const provider = fal.create({ PROVIDER_VARIABLES: variables } as unknown as Config, {} as never);
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
