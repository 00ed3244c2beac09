/**
 * Records the database of a release while work is open. dev/upgrade/record.ts runs this file, as a
 * test, in the sources of that release, so it uses only what every release has.
 */
import { writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { readSchema } from '../../platform/migrations.ts';
import { useOwnGateway } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';

/** Settings that the recorded keys and plans contain. The test of the upgrade uses them again. */
const settings = {
  KEY_PEPPER: 'pepper-of-the-recorded-database-of-a-release',
  TASK_QUEUE_PREFIX: 'recorded-',
};
const gateway = useOwnGateway({ env: settings }, 'never');
const operator = { actor: 'olga', reason: 'upgrade' };

const item = (prompt: string) => ({ use: 'image/generate', body: { prompt } });

/** Makes settled jobs, a refund, a rotated key and a key with a limit. */
async function makeSettled(): Promise<void> {
  const done = await gateway.startImage({ prompt: 'a harbour', metadata: { team: 'blue' } });
  const failed = await gateway.startImage({ prompt: '[[fail:422]] a wreck' });
  for (const jobId of [done, failed]) await gateway.untilDone(jobId);
  await gateway.operate(`/jobs/${done}/refunds`, { ...operator, id: 'one', credits: 1.5 });
  const { key } = await gateway.newKey({ limit: { credits: 50, per: 'month' } });
  await gateway.untilDone(await gateway.startImage({ prompt: 'a pier' }, key), key);
  await gateway.send('/api/v1/chat', {
    body: { model: 'gpt-4o', messages: [{ role: 'user', content: 'hello' }] },
  });
  const bulk = await gateway.call<{ data: { bulkId: string } }>('/api/v1/studio/bulk', {
    body: { items: [item('a boat'), item('a buoy')] },
  });
  await until(async () => {
    const path = `/api/v1/studio/bulk/${bulk.body.data.bulkId}`;
    return (await gateway.call<{ data: { done: boolean } }>(path)).body.data.done;
  });
}

/** Leaves work open: at a provider, before a paused provider, in a stream, and before a receiver. */
async function leaveOpen(): Promise<void> {
  const webhookUrl = gateway.receiver.at('/hook', (response) => response.writeHead(503).end());
  await gateway.untilDone(await gateway.startImage({ prompt: 'a reported tide', webhookUrl }));
  await gateway.untilAccepted(await gateway.startImage({ prompt: '[[slow:600s]] a slow tide' }));
  const chat = gateway.call('/api/v1/chat', {
    body: { model: 'gpt-4o', messages: [{ role: 'user', content: '[[slow:600s]] hello' }] },
  });
  chat.catch(() => {});
  const paused = await gateway.admin('/providers/fal/pause', operator);
  expect(paused.status).toBe(200);
  await gateway.startImage({ prompt: 'a waiting tide' });
  const steps = [
    { id: 'art', ...item('a lighthouse') },
    { id: 'second', ...item('a dune') },
  ];
  const body = { async: true, steps };
  const pipeline = await gateway.call('/api/v1/studio/pipelines', { body });
  expect(pipeline.status, JSON.stringify(pipeline.body)).toBe(202);
  const items = ['an ebb', 'a flood', 'a swell', 'a calm'].map(item);
  const bulk = await gateway.call('/api/v1/studio/bulk', { body: { items, concurrency: 2 } });
  expect(bulk.status, JSON.stringify(bulk.body)).toBe(202);
  await until(async () => {
    const [row] = await gateway.database.query<{ open: string }>(
      `SELECT (SELECT count(*) FROM reservation WHERE state = 'reserved') || ' '
        || (SELECT count(*) FROM provider_call WHERE state = 'waiting') AS open`,
    );
    return row?.open === '6 4';
  });
}

it('records the database', async () => {
  await makeSettled();
  await leaveOpen();
  const { functions } = await readSchema();
  const tables = await gateway.database.query<{ name: string }>(`
    SELECT relname AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 1`);
  const lines = [
    JSON.stringify({ functions: functions.statements, key: gateway.caller.key, ...settings }),
  ];
  for (const { name } of tables) {
    const rows = await gateway.database.query<{ row: string }>(
      `SELECT to_jsonb(t)::text AS row FROM "${name}" t ORDER BY 1`,
    );
    lines.push(...rows.map(({ row }) => `{"table": "${name}", "row": ${row}}`));
  }
  writeFileSync(process.env['RECORDED_RELEASE'] ?? '', `${lines.join('\n')}\n`);
}, 600_000);
