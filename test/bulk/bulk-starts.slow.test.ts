/**
 * Starts of items: each item has one job, also if a start is repeated or a backup was restored; an
 * item that cannot be planned stops no other.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { studioTaskQueue } from '../../domain/job-contract.ts';
import type { BulkResource } from '../../bulk/bulk-view.ts';
import { newId } from '../../domain/ids.ts';
import { useOwnGateway } from '../harness/gateway.ts';
import { startHttpServer, type HttpServer } from '../harness/http-server.ts';
import { releaseLostJob } from '../../studio/jobs/job-endings.ts';
import { drawDisc } from '../harness/media.ts';
import { until, untilHolds } from '../harness/until.ts';

let media: HttpServer;
/** True if the media server leaves the next request without a response. */
let hangsNext = false;
const lamp = await drawDisc(64, 64);
const listening = startHttpServer((_request, response) => {
  const hangs = hangsNext;
  hangsNext = false;
  if (hangs) return;
  response.writeHead(200, { 'content-type': 'image/png', 'content-length': lamp.length });
  response.end(lamp);
});
const gateway = useOwnGateway({ admittedOrigins: [(await listening).url] }, 'last');
beforeAll(async () => {
  media = await listening;
});
afterAll(() => media.close());

const path = '/api/v1/studio/bulk';
interface Items {
  data: { index: number; status: string; error: { code: string; message: string } | null }[];
}
const picture = (prompt: string) => ({ use: 'image/generate', body: { prompt } });

async function accept(body: object): Promise<string> {
  const response = await gateway.call<{ data: BulkResource }>(path, { body });
  expect(response.status, JSON.stringify(response.body)).toBe(202);
  return response.body.data.bulkId;
}
const read = async (bulkId: string) =>
  (await gateway.call<{ data: BulkResource }>(`${path}/${bulkId}`)).body.data;
const readItems = async (bulkId: string) =>
  (await gateway.call<Items>(`${path}/${bulkId}/items`)).body.data;
const untilDone = (bulkId: string) =>
  until(async () => {
    const bulk = await read(bulkId);
    return bulk.done && bulk;
  });
const query = (text: string, values: unknown[]): Promise<{ id?: string }[]> =>
  gateway.database.query(text, values);
const age = (bulkId: string) =>
  query(`UPDATE bulk_item SET claimed_at = claimed_at - interval '1 minute' WHERE bulk_id = $1`, [
    bulkId,
  ]);

/** Accepts a bulk job whose first item lasts until `release`; the others wait. */
async function acceptHeld(items: object[]) {
  const word = newId('job').slice(-8);
  const held = picture(`[[slow:600s]] held ${word}`);
  const bulkId = await accept({ items: [held, ...items], concurrency: 1 });
  await until(async () => (await gateway.sandbox.submits({ match: word })).length === 1);
  return { bulkId, release: () => gateway.sandbox.clearFaults() };
}

describe('an item', () => {
  it('that always throws fails after eight attempts; the others go on', async () => {
    const { bulkId, release } = await acceptHeld([picture('a broken row'), picture('a whole row')]);
    // Seven attempts have failed; each further one would take longer.
    await query(
      `UPDATE bulk_item SET metadata = '[7]', postponed = 7 WHERE bulk_id = $1 AND index = 1`,
      [bulkId],
    );
    await release();
    expect((await untilDone(bulkId)).counts).toMatchObject({ completed: 2, failed: 1 });
    expect((await readItems(bulkId))[1]).toMatchObject({
      error: { code: 'Internal server error', message: 'Something went wrong on our side.' },
    });
  });

  it('with a slow input is postponed and delays no other', async () => {
    const slow = {
      use: 'image/upscale',
      body: { imageUrl: `${media.url}/lamp.png`, scaleFactor: 2 },
    };
    const { bulkId, release } = await acceptHeld([slow, picture('a quick fox'), picture('a hare')]);
    hangsNext = true;
    await query(`UPDATE bulk SET concurrency = 3 WHERE id = $1`, [bulkId]);
    await release();
    expect((await untilDone(bulkId)).counts).toMatchObject({ completed: 4, failed: 0 });
    const started = await query(
      `SELECT index, postponed FROM bulk_item WHERE bulk_id = $1 ORDER BY claimed_at`,
      [bulkId],
    );
    // The items beside it started before its second attempt.
    expect(started.at(-1)).toEqual({ index: 1, postponed: 1 });
  });

  it('whose job has ended at Temporal, but not in a restored database, is lost and not sent again', async () => {
    const { bulkId, release } = await acceptHeld([
      picture('a restored lamp'),
      picture('a new lamp'),
    ]);
    const [row] = await query(`SELECT bulk_job_id($1, '1 1') AS id`, [bulkId]);
    const jobId = row?.id ?? expect.fail('the row has an id');
    const taskQueue = studioTaskQueue(gateway.config.TASK_QUEUE_PREFIX);
    const earlier = { workflowId: jobId, taskQueue, args: [{}] };
    await gateway.api.client.workflow.execute('imageGenerate', earlier).catch(() => {});
    await release();
    await untilHolds(async () => {
      await age(bulkId);
      expect(await read(bulkId)).toMatchObject({ done: true });
    });
    expect((await read(bulkId)).counts).toMatchObject({ completed: 2, failed: 1 });
    expect((await readItems(bulkId))[1]).toMatchObject({ error: { code: 'JOB_LOST' } });
    expect(await gateway.sandbox.submits({ match: 'a restored lamp' })).toEqual([]);
    // The caller may start it once more.
    await gateway.send(`${path}/${bulkId}/retry`, { method: 'POST' });
    expect((await untilDone(bulkId)).counts).toMatchObject({ completed: 3, failed: 0 });
    expect(await gateway.sandbox.submits({ match: 'a restored lamp' })).toHaveLength(1);
  });
});

describe('the reservation of a chat', () => {
  it('is rejected once the chat waits again under another id', async () => {
    const content = [{ role: 'user', content: 'ahoy' }];
    const chat = { model: 'gpt-5-nano', messages: content, max_tokens: 20 };
    const { bulkId, release } = await acceptHeld([{ use: 'chat', body: chat }]);
    const { chatLedger } = gateway.api.services;
    const { organizationId, keyId } = gateway.caller;
    const own = { organizationId, item: true as const, ttlMs: 60_000, freeDivisor: 2 };
    const amounts = { amountMinMicro: 1, amountExpectedMicro: 1, amountMaxMicro: 1 };
    const fields = { keyId, model: 'x', provider: 'openai', streamed: false, requestId: 'req' };
    const reserve = (id: string) => chatLedger.reserve({ ...own, ...amounts, id, chat: fields });
    const readRow = async () =>
      (await query(`SELECT state, job_id AS id FROM bulk_item WHERE bulk_id = $1 AND index = 1`, [
        bulkId,
      ])) as { state: string; id: string | null }[];
    const advance = () =>
      query(
        `SELECT bulk_advance(jsonb_build_object('bulkId', $1::text, 'missing', $2::jsonb, 'lost', $2::jsonb,
        'rejected', '[]'::jsonb, 'itemsMax', 0))`,
        [bulkId, JSON.stringify([chatId])],
      );
    // A worker has claimed the chat, and stopped before it reserved.
    const chatId = newId('chat');
    await query(
      `WITH claimed AS (UPDATE bulk_item SET state = 'running', job_id = $2, claimed_at = clock_timestamp()
          WHERE bulk_id = $1 AND index = 1 RETURNING price)
        UPDATE bulk SET waiting = waiting - 1, running = running + 1, waiting_price = waiting_price - price,
          reserved = reserved + price FROM claimed WHERE id = $1`,
      [bulkId, chatId],
    );
    // Temporal knows no workflow with the id of a chat, so a worker of 0.1.0 reports it as missing.
    await advance();
    expect(await readRow()).toEqual([{ state: 'running', id: chatId }]);
    await age(bulkId);
    await advance();
    const [row] = await readRow();
    expect(row?.state).toBe('waiting');
    expect(row?.id).toMatch(/^chat_[0-9a-f]{32}$/);
    expect(row?.id).not.toBe(chatId);
    expect(await reserve(chatId)).toMatchObject({ verdict: 'item_not_started' });
    expect(await gateway.database.entryKinds(chatId)).toEqual([]);
    await release();
    expect(await untilDone(bulkId)).toMatchObject({ counts: { completed: 2 } });
  });
});

describe('the reservation of a job', () => {
  it('is rejected if the item of the job is not started any more', async () => {
    const { bulkId, release } = await acceptHeld([picture('a returned lamp')]);
    const { ledger } = gateway.api.services;
    const { organizationId, keyId } = gateway.caller;
    const jobId = newId('job');
    const reserve = (state: string) =>
      query(`UPDATE bulk_item SET state = $2, job_id = $3 WHERE bulk_id = $1 AND index = 1`, [
        bulkId,
        state,
        jobId,
      ]).then(() =>
        ledger.reserve({
          organizationId,
          id: jobId,
          kind: 'studio',
          amountMicro: 1,
          ttlMs: 60_000,
          job: {
            keyId,
            type: 'imageGenerate',
            model: null,
            provider: 'fal',
            requestId: 'req',
            deadlineAt: new Date().toISOString(),
            request: {},
            plan: { inBulk: true },
          },
        }),
      );
    for (const state of ['waiting', 'canceled', 'failed'])
      expect(await reserve(state)).toMatchObject({ verdict: 'item_not_started' });
    expect(await gateway.database.entryKinds(jobId)).toEqual([]);
    expect(await reserve('running')).toMatchObject({ verdict: 'reserved' });
    await releaseLostJob(ledger, { organizationId, id: jobId });
    await query(
      `UPDATE bulk_item SET state = 'waiting', job_id = NULL WHERE bulk_id = $1 AND index = 1`,
      [bulkId],
    );
    await release();
    await untilDone(bulkId);
  });
});
