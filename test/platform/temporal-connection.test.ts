/** Connections to Temporal that close while the server is unreachable. */
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { expect, inject, it } from 'vitest';
import { z } from 'zod';
import { temporalVariables } from '../../platform/config-variables.ts';
import { openTemporal } from '../../platform/temporal-connection.ts';
import { until } from '../harness/until.ts';

/** Starts a server that forwards connections to Temporal until `stop`, and refuses them afterwards. */
async function startRelay() {
  const [host = '', port] = inject('temporalAddress').split(':');
  const sockets = new Set<Socket>();
  const relay = { address: '', stopped: false, refused: 0, stop, close: () => server.close() };
  const server = createServer((near) => {
    near.on('error', () => {});
    if (relay.stopped) {
      relay.refused += 1;
      return near.destroy();
    }
    const far = connect(Number(port), host);
    sockets.add(near);
    far.on('error', () => near.destroy());
    return void near.pipe(far).pipe(near);
  });
  function stop(): void {
    relay.stopped = true;
    for (const socket of sockets) socket.destroy();
  }
  await once(server.listen(0, '127.0.0.1'), 'listening');
  relay.address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return relay;
}

// A retry on a closed connection would be an uncaught error, with which the test run fails.
it('a call that is being retried fails when its connection closes', async () => {
  const relay = await startRelay();
  const config = z.object(temporalVariables).parse({ TEMPORAL_ADDRESS: relay.address });
  const connection = await openTemporal({ ...config, PAYLOAD_ENCRYPTION: false });
  relay.stop();
  const call = connection.workflowService.getSystemInfo({}).then(
    () => 'a response',
    (error: Error) => error.message,
  );
  await until(() => Promise.resolve(relay.refused >= 2));
  await connection.close();
  expect(await call).toContain('UNAVAILABLE');
  relay.close();
});
