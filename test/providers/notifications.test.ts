/**
 * A verified provider notification is signaled to its workflow once; until then the gateway makes
 * the provider send it again.
 */
import { Client, Connection } from '@temporalio/client';
import { expect, it } from 'vitest';
import { createRelays } from '../../process/services.ts';
import { newId } from '../../domain/ids.ts';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });

const relayOver = (client: Client) =>
  createRelays(gateway.api.services, client, gateway.config).notificationRelay;

it('a notification whose workflow cannot be signaled is stored and fails the request; the repeat is signaled, and a third one changes nothing', async () => {
  const jobId = newId('job');
  const notification = { provider: 'fal', jobId, callIndex: 0, operationId: 'one' };
  const { client } = gateway.api;
  const handle = await client.workflow.start('imageGenerate', {
    workflowId: jobId,
    taskQueue: 'nobody-polls-this',
  });
  const connection = Connection.lazy({ address: '127.0.0.1:1' });
  const away = relayOver(new Client({ connection }));
  await expect(away.receive(notification)).rejects.toThrow();
  await connection.close();
  expect(await gateway.database.notifications(jobId)).toEqual([
    { state: 'received', deliveries: 1 },
  ]);

  const relay = relayOver(client);
  for (const deliveries of [2, 3]) {
    await relay.receive(notification);
    expect(await gateway.database.notifications(jobId)).toEqual([
      { state: 'delivered', deliveries },
    ]);
  }
  const signals = (await gateway.events(jobId)).filter(
    (event) => event.workflowExecutionSignaledEventAttributes,
  );
  expect(signals).toHaveLength(1);
  await handle.terminate();
});
