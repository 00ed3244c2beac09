/**
 * The sweeper processes each row and each step separately: a failing row or step does not stop the
 * others.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { describe, expect, it } from 'vitest';
import { createStuckJobs } from '../../studio/jobs/stuck-jobs.ts';
import type { Services } from '../../process/services.ts';
import { newId } from '../../domain/ids.ts';
import { repeat } from '../../platform/background.ts';
import { useOwnGateway } from '../harness/gateway.ts';
import { sweepOnce } from '../harness/sweeps.ts';

// No worker settles the jobs before the sweeper does.
const gateway = useOwnGateway({ worker: false, env: { RESERVATION_TTL_MS: '1000' } }, 'last');

/** Prefix of job ids whose workflows cannot be read from Temporal. */
const unreadablePrefix = 'job_unreadable_';
/** Prefix of job ids whose workflows an operator has paused. */
const pausedPrefix = 'job_paused_';
const broken = () => Promise.reject(new Error('broken on purpose'));

/** Returns a sweeper over the services of the gateway, of which some may be broken. */
function createSweeper(changed: Partial<Services> = {}) {
  const { services, client: reached } = gateway.api;
  const client = Object.create(reached) as Client;
  const workflow = Object.create(reached.workflow) as Client['workflow'];
  workflow.getHandle = (id, ...rest) => {
    if (id.startsWith(unreadablePrefix)) throw new Error('rejected on purpose');
    const handle = reached.workflow.getHandle(id, ...rest);
    const paused = { status: { name: 'PAUSED' }, raw: {} } as WorkflowExecutionDescription;
    return id.startsWith(pausedPrefix) ? { ...handle, describe: async () => paused } : handle;
  };
  Object.defineProperty(client, 'workflow', { value: workflow });
  const api = { ...gateway.api, client, services: { ...services, ...changed } };
  const sweep = () => sweepOnce({ ...gateway, api });
  return {
    sweep,
    async untilReleased(id: string, interval = 300) {
      const sweepAndRead = () => sweep().then(() => readState(id));
      await expect.poll(sweepAndRead, { interval }).toBe('released');
    },
  };
}

type Reserve = Parameters<Services['ledger']['reserve']>[0];

/** Makes an open Studio reservation whose time has come, and that has no workflow. */
async function reserve(id: string, job?: Reserve['job']): Promise<void> {
  await gateway.api.services.ledger.reserve({
    organizationId: gateway.caller.organizationId,
    id,
    kind: 'studio',
    amountMicro: 1,
    ttlMs: 0,
    ...(job && { job }),
  });
}
const release = (id: string) =>
  gateway.api.services.ledger.settle({
    organizationId: gateway.caller.organizationId,
    id,
    to: 'released',
    amountMicro: 0,
    reason: 'test',
  });
const readState = async (id: string) => {
  const [row] = await gateway.database.query<{ state: string }>(
    'SELECT state FROM reservation WHERE id = $1',
    [id],
  );
  return row?.state;
};

const newUnreadableId = () => `${unreadablePrefix}${newId('job')}`;

describe('a workflow that runs longer than the deadline of its job', () => {
  it('is left alone for a second deadline period, then terminated and released', async () => {
    const id = newId('job');
    await reserve(id, {
      keyId: gateway.caller.keyId,
      type: 'imageGenerate',
      model: null,
      provider: 'fal',
      requestId: id,
      deadlineAt: new Date(Date.now() - 600_000).toISOString(),
      request: {},
    });
    await gateway.database.query(
      `UPDATE job SET created_at = deadline_at - interval '10 minutes' WHERE id = $1`,
      [id],
    );
    // No worker polls this task queue.
    const handle = await gateway.api.client.workflow.start('imageGenerate', {
      workflowId: id,
      taskQueue: 'nobody-polls-this',
    });
    const sweeper = createSweeper();
    /** Sweeps once, after moving the job's deadline and the time when it was found overdue into the past. */
    const pass = async (foundSecondsAgo: number, lateSeconds: number) => {
      await gateway.database.query(
        `UPDATE reservation SET expires_at = clock_timestamp() - $2 * interval '1 second',
           owner_missing_at = clock_timestamp() - $3 * interval '1 second' WHERE id = $1`,
        [id, lateSeconds, foundSecondsAgo],
      );
      const { extended, released } = await sweeper.sweep();
      return { extended, released, state: await readState(id) };
    };
    const left = { extended: 1, released: 0, state: 'reserved' };
    expect(await pass(20, 0.1)).toEqual(left);
    const found = `SELECT FROM reservation
      WHERE id = $1 AND owner_missing_at < clock_timestamp() - interval '20 seconds'`;
    expect(await gateway.database.query(found, [id])).toHaveLength(1);
    // After an outage in which the sweeper was away too.
    expect(await pass(7200, 600)).toEqual(left);
    expect((await handle.describe()).status.name).toBe('RUNNING');
    const { services, client } = gateway.api;
    // Its provider responded with an error, after which no result can follow.
    const call = `INSERT INTO provider_call (job_id, call_index, route_index, provider, state)
      VALUES ($1, 0, 0, 'openai', 'unknown')`;
    await gateway.database.query(call, [id]);
    const stuck = await createStuckJobs({ pool: services.pool, client }).find(id);
    expect(stuck?.reasons).toContainEqual(expect.stringContaining('found its workflow overdue'));
    expect(stuck?.reasons.at(-1)).toMatch(/ago ended without a request id or a stored result$/);

    expect(await pass(7200, 0.1)).toEqual({ extended: 0, released: 1, state: 'released' });
    expect((await handle.describe()).status.name).toBe('TERMINATED');
    const job = `SELECT status, error->>'code' AS code FROM job WHERE id = $1`;
    expect(await gateway.database.query(job, [id])).toEqual([
      { status: 'failed', code: 'JOB_LOST' },
    ]);
  });
});

it('a task that is stopped ends its current run first', async () => {
  let isDone = false;
  const run = () => sleep(20).then(() => void (isDone = true));
  await repeat(run, { intervalMs: 1 })();
  expect(isDone).toBe(true);
});

describe('a pass of the sweeper', () => {
  it('releases a job although the workflows of other jobs are paused or cannot be read, and counts those jobs', async () => {
    const bad = [newUnreadableId(), newUnreadableId()];
    const good = newId('job');
    const paused = `${pausedPrefix}${newId('job')}`;
    for (const id of [...bad, good, paused]) await reserve(id);
    await gateway.database.query('UPDATE reservation SET owner_missing_at = now() WHERE id = $1', [
      paused,
    ]);
    const sweeper = createSweeper();
    expect(await sweeper.sweep()).toMatchObject({ skipped: 2, missing: 1, extended: 1, failed: 0 });
    await sweeper.untilReleased(good);
    const found = 'SELECT FROM reservation WHERE id = $1 AND owner_missing_at IS NULL';
    expect(await gateway.database.query(found, [paused])).toHaveLength(1);
    for (const id of [...bad, paused]) {
      expect(await readState(id)).toBe('reserved');
      await release(id);
    }
  });

  it('reaches a job behind a hundred jobs whose workflows cannot be read', async () => {
    const bad = Array.from({ length: 120 }, newUnreadableId);
    await Promise.all(bad.map((id) => reserve(id)));
    const good = newId('job');
    await reserve(good);
    await createSweeper().untilReleased(good, 1);
    await Promise.all(bad.map(release));
  });

  it.each<[string, () => Partial<Services>]>([
    ['chats', () => ({ chatLedger: { ...gateway.api.services.chatLedger, sweep: broken } })],
    ['uploads', () => ({ uploads: { ...gateway.api.services.uploads, sweep: broken } })],
  ])('completes its other steps when the sweep of %s fails', async (_name, changed) => {
    const good = newId('job');
    await reserve(good);
    const sweeper = createSweeper(changed());
    await sweeper.untilReleased(good);
    expect(await sweeper.sweep()).toMatchObject({ failed: 1 });
  });

  it('removes the other uploads and copies when one cannot be removed', async () => {
    const { uploads, copies } = gateway.api.services;
    const made = [newId('upload'), newId('upload')];
    const { organizationId, keyId } = gateway.caller;
    for (const id of made) {
      await uploads.create(gateway.api.services.pool, {
        id,
        organizationId,
        keyId,
        storageKey: `${organizationId}/${id}.png`,
        contentType: 'image/png',
        sizeBytes: 10,
        bytesMax: 10,
        convertedFrom: null,
        filename: null,
        purpose: null,
        expiresAtMs: Date.now() - 7_200_000,
      });
    }
    // A key that the storage rejects.
    const [bad, good] = made;
    await gateway.database.query(`UPDATE upload SET storage_key = 'nonsense' WHERE id = $1`, [bad]);
    expect(await uploads.sweep()).toEqual({ done: 1, skipped: 1 });
    // A process stopped before it started the jobs of these copies.
    const kept = `${organizationId}/${bad}.png`;
    await gateway.database.query(
      `WITH counted AS (UPDATE organization SET upload_bytes = upload_bytes + 3 WHERE id = $1)
        INSERT INTO input_copy VALUES ('nonsense', $1, 'a', 1, now() - interval '3 days'),
        ($2, $1, 'a', 1, now() - interval '3 days'), ($3, $1, 'a', 1, now() - interval '1 day')`,
      [organizationId, `${organizationId}/${good}.png`, kept],
    );
    expect(await copies.sweep()).toEqual({ done: 1, skipped: 1 });
    const keys = await gateway.database.query(
      'SELECT storage_key AS key FROM input_copy ORDER BY 1',
    );
    expect(keys).toEqual([{ key: 'nonsense' }, { key: kept }]);
    const left = await gateway.database.query<{ id: string }>('SELECT id FROM upload');
    expect(left).toEqual([{ id: bad }]);
    expect(await uploads.find(good ?? '')).toBeNull();
  });
});
