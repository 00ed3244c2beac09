/** Failures of connections: a call that was certainly not sent may be sent again, another may not. */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { networkFailure } from '../../chat/upstream-failures.ts';
import type { ProviderFailure } from '../../domain/provider-failure.ts';
import { createExchange, createProviderAgent, sendCall } from '../../providers/provider-http.ts';
import { freePort } from '../../dev/stack/free-port.ts';

const agent = createProviderAgent({ headersTimeout: 5000, bodyTimeout: 5000 });
const exchange = createExchange(agent, {});
const closers: (() => unknown)[] = [];
afterAll(async () => {
  for (const close of closers) close();
  await agent.destroy();
});

/** Starts a server that calls a function with each connection after its first bytes. */
async function serve(act: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => act(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closers.push(() => server.close());
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Sends a call, and returns its failure. */
const fail = async (url: string): Promise<ProviderFailure> => {
  const call = exchange({ url, json: {}, signal: AbortSignal.timeout(10_000) });
  return sendCall(call).then(
    () => expect.unreachable('the call fails'),
    (error: unknown) => error as ProviderFailure,
  );
};

const ends: Record<string, (socket: Socket) => void> = {
  reset: (socket) => socket.resetAndDestroy(),
  closed: (socket) => socket.end(),
  'refused by an alert': (socket) => socket.end(Buffer.from([21, 3, 3, 0, 2, 2, 40])),
  'answered without TLS': (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'),
};

describe('a TLS handshake', () => {
  it.each(Object.entries(ends))('that is %s sends nothing', async (_case, act) => {
    const failure = await fail(`https://${await serve(act)}/call`);
    expect(failure.kind).toBe('not_accepted');
    expect(failure.message).toMatch(/^the call could not be sent \(E[A-Z_0-9/]+\)$/);
    // A chat goes on with its next model, and costs nothing.
    expect(networkFailure(failure.cause)).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
  });
});

describe('a connection', () => {
  let refused: string;
  beforeAll(async () => {
    refused = `127.0.0.1:${await freePort()}`;
  });
  it('that is refused sends nothing', async () => {
    expect((await fail(`http://${refused}/call`)).kind).toBe('not_accepted');
    expect((await fail(`https://${refused}/call`)).kind).toBe('not_accepted');
  });
  it('to a name that does not resolve sends nothing', async () => {
    expect((await fail('http://gone.invalid/call')).kind).toBe('not_accepted');
  });
  it.each(['reset', 'closed'])('that is %s after the request may have sent it', async (end) => {
    const failure = await fail(`http://${await serve(ends[end] ?? expect.fail())}/call`);
    expect(failure.kind).toBe('unknown');
    expect(networkFailure(failure.cause)).toMatchObject({ code: 'PROVIDER_ERROR' });
  });
});
