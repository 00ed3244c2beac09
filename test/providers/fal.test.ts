/**
 * Cancels and status checks at fal: a response that does not show whether fal has received a cancel
 * is an error.
 */
import { expect, it } from 'vitest';
import type { Config } from '../../platform/config.ts';
import fal from '../../providers/fal/index.ts';
import { during } from '../harness/during.ts';
import { startHttpServer } from '../harness/http-server.ts';

let status = 202;
let body: object = {};
const server = during(() =>
  startHttpServer((_request, response) => {
    response.writeHead(status).end(JSON.stringify(body));
  }),
);

const operation = { endpoint: 'fal-ai/nano-banana', id: 'a-request' };
const { signal } = new AbortController();
function operations() {
  const variables = { FAL_KEY: 'a-key-of-fal', FAL_QUEUE_URL: server.url };
  const settings = { PROVIDER_VARIABLES: variables } as unknown as Config;
  return fal.create(settings, {} as never).operations;
}
const cancel = () => operations()?.cancel(operation, signal);

it.each<[number, string]>([
  [202, 'requested'],
  [400, 'already_done'],
  [404, 'already_done'],
  ...[401, 429, 500, 503].map((received): [number, string] => [received, 'unreachable']),
])('a cancel at fal with the response %i ends as %s', async (received, end) => {
  status = received;
  expect(await cancel()?.catch(({ kind }: { kind: string }) => kind)).toBe(end);
});

it.each([
  [3, 3],
  [1.5, null],
  [2 ** 31, null],
  ['next', null],
])('a status with the queue position %j shows %j', async (received, queuePosition) => {
  status = 200;
  body = { status: 'IN_QUEUE', queue_position: received };
  expect(await operations()?.check(operation, { signal, hasEnded: false })).toEqual({
    kind: 'pending',
    progress: { state: 'queued', queuePosition },
  });
});
