/**
 * After an outage of Temporal many notifications wait, and every worker process looks for them: each workflow is
 * told once. A second signal would undo the workflow task that the first has started.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRelays } from '../../activities/services.ts';
import { newId } from '../../domain/ids.ts';
import { startGateway, type TestGateway } from '../harness/gateway.ts';

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startGateway({ worker: false });
});
afterAll(async () => {
  await gateway.close();
});

const kept = (jobId: string) => ({ provider: 'fal', jobId, callIndex: 0, operationId: 'one' });
/** As if it had come in so long ago. */
async function keep(jobId: string, secondsAgo: number): Promise<void> {
  await gateway.api.services.inbox.keep(kept(jobId));
  await gateway.database.query(
    `UPDATE notification SET received_at = clock_timestamp() - $2 * interval '1 second'
       WHERE job_id = $1`,
    [jobId, secondsAgo],
  );
}
const stateOf = async (jobId: string) => {
  const [row] = await gateway.database.query<{ state: string }>(
    'SELECT state FROM notification WHERE job_id = $1',
    [jobId],
  );
  return row?.state;
};

describe('notifications that no workflow has heard', () => {
  it('are told once, however many processes look for them', async () => {
    const { services, client } = gateway.api;
    const jobs = Array.from({ length: 5 }, () => newId('job'));
    const handles = await Promise.all(
      jobs.map(async (jobId) => {
        const queue = { workflowId: jobId, taskQueue: 'nobody-polls-this' };
        const handle = await client.workflow.start('imageGenerate', queue);
        await keep(jobId, 7);
        return handle;
      }),
    );
    const fresh = newId('job');
    await keep(fresh, 3);

    const processes = Array.from({ length: 4 }, () =>
      createRelays(services, client, gateway.config),
    );
    const told = await Promise.all(
      processes.map(({ notificationRelay }) => notificationRelay.redeliver()),
    );
    expect(told.toSorted()).toEqual([0, 0, 0, jobs.length]);
    for (const [index, handle] of handles.entries()) {
      const { events } = await handle.fetchHistory();
      expect(
        events?.filter((event) => event.workflowExecutionSignaledEventAttributes),
      ).toHaveLength(1);
      expect(await stateOf(jobs[index] ?? '')).toBe('delivered');
      await handle.terminate();
    }
    // Whoever received it may still be telling its workflow.
    expect(await stateOf(fresh)).toBe('received');
  });
});
