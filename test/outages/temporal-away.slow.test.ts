/** A Temporal server that accepts connections and does not respond. */
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { Connection } from '@temporalio/client';
import { afterAll, describe, expect, inject, it } from 'vitest';
import { registerSearchAttributes } from '../../platform/temporal.ts';
import { useGateway, type StudioBody } from '../harness/gateway.ts';

const [host = '', port] = inject('temporalAddress').split(':');
const sockets: Socket[] = [];
let isFrozen = false;
const server = createServer((client) => {
  const upstream = connect(Number(port), host);
  client.pipe(upstream).pipe(client);
  for (const socket of [client, upstream]) {
    sockets.push(socket);
    socket.on('error', () => {});
    if (isFrozen) socket.pause();
  }
}).listen(0, '127.0.0.1');
await once(server, 'listening');
const { port: ownPort } = server.address() as AddressInfo;
const gateway = useGateway({ env: { TEMPORAL_ADDRESS: `127.0.0.1:${ownPort}` } });
afterAll(() => server.close());

/** Stops all traffic between the gateway and Temporal, or lets it flow again. */
function setFrozen(frozen: boolean): void {
  isFrozen = frozen;
  for (const socket of sockets) {
    if (frozen) socket.pause();
    else socket.resume();
  }
}

/** Returns the id of a pipeline of which a step waits for a decision. */
async function startWaiting(): Promise<string> {
  const art = { id: 'art', use: 'image/generate', body: { prompt: 'a lake' } };
  const imageUrl = { $from: 'art' };
  const cut = { id: 'cut', use: 'image/remove-background', approve: true, body: { imageUrl } };
  const { body } = await gateway.call('/api/v1/studio/pipelines', {
    body: { steps: [art, cut], async: true },
  });
  const { jobId } = body.data;
  const waits = async () => (await gateway.call(`/api/v1/studio/jobs/${jobId}`)).body.data.phase;
  await expect.poll(waits).toBe('awaiting_approval');
  return jobId;
}

describe('while Temporal does not respond', () => {
  it('a cancel, a decision and the operators’ actions on a job return 503 with Retry-After', async () => {
    const jobId = await gateway.startImage({ prompt: '[[slow:900s]] a frozen lake' });
    const cancel = () => gateway.call(`/api/v1/studio/jobs/${jobId}/cancel`, { method: 'POST' });
    const overdue = 'UPDATE reservation SET owner_missing_at = now() WHERE id = $1';
    await gateway.database.query(overdue, [jobId]);
    const decisionPath = `/api/v1/studio/jobs/${await startWaiting()}/steps/cut/decision`;
    const decide = () => gateway.call(decisionPath, { body: { decision: 'approve' } });
    setFrozen(true);
    try {
      const ready = await Promise.race([gateway.call('/readyz'), cancel()]);
      const checks = { postgres: true, temporal: false, pollers: false };
      expect(ready).toMatchObject({ status: 200, body: { status: 'degraded', checks } });
      const explaining = gateway.admin<StudioBody<{ why: string }>>(`/jobs/${jobId}`);
      // Each pass of the sweeper waits until the search attributes are registered.
      const connection = gateway.api.client.connection as Connection;
      const registering = registerSearchAttributes(connection, 'default', []);
      const registered = expect(registering).rejects.toThrow('DEADLINE_EXCEEDED');
      const answers = await Promise.all([
        cancel(),
        decide(),
        ...['cancel', 'reverify', 'resettle'].map((action) =>
          gateway.admin(`/jobs/${jobId}/${action}`, {}),
        ),
      ]);
      for (const answer of answers) {
        expect(answer).toMatchObject({ status: 503, body: { error: 'SERVICE_UNAVAILABLE' } });
        expect(answer.headers.get('retry-after')).toBe('2');
      }
      expect((await explaining).body.data.why).toMatch(
        /Temporal is unreachable.*; the sweeper found its workflow missing or overdue \d+ s ago; /,
      );
      await registered;
    } finally {
      setFrozen(false);
    }
    await expect.poll(async () => (await cancel()).status).toBe(200);
    const decided = await decide();
    expect(decided).toMatchObject({ status: 200, body: { data: { awaiting: [] } } });
  });
});
