import type { NativeConnection } from '@temporalio/worker';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { BulkResource } from '../../bulk/bulk-view.ts';
import { microFromCredits } from '../../domain/credits.ts';
import { connectWorkers } from '../../worker/runtime.ts';
import { startStudioWorkers, type StudioWorkers } from '../../worker/studio-worker.ts';
import { bundleChanged } from '../harness/changed-workflows.ts';
import { startGateway, useOwnGateway, type TestGateway } from '../harness/gateway.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { drawDisc } from '../harness/media.ts';
import { until, untilHolds } from '../harness/until.ts';
import { uploadFile } from '../harness/uploads.ts';

const gateway = useOwnGateway({}, 'last');
const path = '/api/v1/studio/bulk';
interface Body {
  data: BulkResource;
  error: string;
}

interface Explained {
  bulkId: string;
  why: string;
}
const explain = async (bulkId: string): Promise<string> =>
  (await gateway.admin<{ data: Explained }>(`/bulks/${bulkId}`)).body.data.why;

interface StuckList {
  data: { reasons: string[] }[];
}

const pictures = (count: number, word: string) =>
  Array.from({ length: count }, (_, index) => ({
    use: 'image/generate',
    body: { prompt: `${word} number ${index}` },
  }));

async function accept(body: object, key = gateway.caller.key): Promise<string> {
  const response = await gateway.call<Body>(path, { body, key });
  expect(response.status, JSON.stringify(response.body)).toBe(202);
  return response.body.data.bulkId;
}

const post = (bulkId: string, command: string, body?: object) =>
  gateway.call<Body>(`${path}/${bulkId}/${command}`, { method: 'POST', ...(body && { body }) });
const read = async (bulkId: string, key = gateway.caller.key): Promise<BulkResource> =>
  (await gateway.call<Body>(`${path}/${bulkId}`, { key })).body.data;

async function untilDone(bulkId: string, key = gateway.caller.key): Promise<BulkResource> {
  for (;;) {
    const { body } = await gateway.call<Body>(`${path}/${bulkId}?wait=20`, { key });
    if (body.data.done) return body.data;
  }
}

/** Checks that each item has one job, one accepted submit and one charge. */
async function expectOneJobEach(bulkId: string, count: number, word: string): Promise<void> {
  expect(await read(bulkId)).toMatchObject({ counts: { completed: count, failed: 0 } });
  expect(await gateway.sandbox.submits({ match: word })).toHaveLength(count);
  const jobs = await gateway.database.query(
    `SELECT j.id FROM job j JOIN bulk_item i ON i.job_id = j.id WHERE i.bulk_id = $1`,
    [bulkId],
  );
  expect(jobs).toHaveLength(count);
}

/** Moves the times of starts into the past, so that starts without a job count as lost. */
const age = (bulkId: string) =>
  gateway.database.query(
    `UPDATE bulk_item SET claimed_at = claimed_at - interval '1 minute' WHERE bulk_id = $1`,
    [bulkId],
  );

describe('the workflow of a bulk job', () => {
  it('that is reset to its start runs each item once', async () => {
    const bulkId = await accept({ items: pictures(12, 'reset lamp'), concurrency: 3 });
    await until(async () => (await read(bulkId)).counts.completed >= 3);
    const { client } = gateway.api;
    const { runId } = await client.workflow.getHandle(bulkId).describe();
    const events = await gateway.events(bulkId);
    const task = events.find((event) => event.workflowTaskCompletedEventAttributes);
    if (!task?.eventId) throw new Error('the workflow has a task');
    await client.workflowService.resetWorkflowExecution({
      namespace: client.options.namespace,
      workflowExecution: { workflowId: bulkId, runId },
      workflowTaskFinishEventId: task.eventId,
      requestId: bulkId,
      reason: 'test',
    });
    await age(bulkId);
    expect((await untilDone(bulkId)).status).toBe('completed');
    await expectOneJobEach(bulkId, 12, 'reset lamp');
  });

  it('that is terminated leaves its jobs alone; the bulk job stops, and can be resumed', async () => {
    await gateway.sandbox.inject({ match: 'killed lamp', faults: 'slow:1s', times: 6 });
    const bulkId = await accept({ items: pictures(8, 'killed lamp'), concurrency: 4 });
    await until(async () => (await gateway.sandbox.submits({ match: 'killed lamp' })).length >= 2);
    await gateway.getWorkflow(bulkId).terminate('test');
    const hangs =
      'It hangs: its workflow ended (TERMINATED). The sweeper stops it as WORKFLOW_LOST';
    expect(await explain(bulkId)).toContain(hangs);
    await untilHolds(async () => {
      await gateway.database.query(
        `UPDATE bulk SET checked_at = now() - interval '1 hour', missing_at = missing_at - interval '1 minute' WHERE id = $1`,
        [bulkId],
      );
      await age(bulkId);
      await sweepOnce(gateway);
      expect(await read(bulkId)).toMatchObject({ done: true, stopReason: 'WORKFLOW_LOST' });
    });
    const stopped = await read(bulkId);
    expect(stopped.counts).toMatchObject({ running: 0, failed: 0 });
    expect(stopped.counts.completed).toBeGreaterThan(0);
    expect((await post(bulkId, 'resume')).status).toBe(200);
    await untilDone(bulkId);
    await expectOneJobEach(bulkId, 8, 'killed lamp');
    expect(await explain(bulkId)).toMatch(/^Ended as completed .* ago: 8 completed, 0 failed/);
  });

  it('that is paused is listed with the reason, the time and what continues it', async () => {
    const { key } = await gateway.newCaller({ credits: 4 });
    const bulkId = await accept({ items: pictures(2, 'poor lamp') }, key);
    await until(async () => (await read(bulkId, key)).status === 'paused');
    const listed = await gateway.admin<{ data: Explained[] }>('/bulks');
    expect(listed.body.data.find((bulk) => bulk.bulkId === bulkId)).toMatchObject({
      status: 'paused',
      stopReason: 'INSUFFICIENT_CREDITS',
      pausedAt: expect.stringMatching(/Z$/),
      workflow: { state: 'running' },
      why: expect.stringMatching(
        /^Paused .* ago \(INSUFFICIENT_CREDITS\): .* It continues when its organization has credits again\.$/,
      ),
    });
    const overview = await gateway.admin<{ data: { bulks: { paused: number } } }>('/overview');
    expect(overview.body.data.bulks.paused).toBeGreaterThan(0);
    const unknown = await gateway.admin<Body>(`/bulks/bulk_${'0'.repeat(32)}`);
    expect([unknown.status, unknown.body.error]).toEqual([404, 'BULK_NOT_FOUND']);
    await gateway.send(`${path}/${bulkId}/cancel`, { method: 'POST', key });
    await untilDone(bulkId, key);
  });

  it('that was never started is started by the sweeper', async () => {
    const bulkId = await accept({ items: pictures(2, 'forgotten lamp'), concurrency: 1 });
    await gateway.getWorkflow(bulkId).terminate('test');
    await age(bulkId);
    await gateway.database.query(
      `UPDATE bulk SET unsignaled_since = now() - interval '1 minute' WHERE id = $1 AND completed_at IS NULL`,
      [bulkId],
    );
    await sweepOnce(gateway);
    await untilDone(bulkId);
    await expectOneJobEach(bulkId, 2, 'forgotten lamp');
  });

  it('that an operator cancels cancels the waiting items', async () => {
    await gateway.sandbox.inject({ match: 'operated lamp', faults: 'slow:900s', times: 6 });
    const bulkId = await accept({ items: pictures(6, 'operated lamp'), concurrency: 1 });
    await until(async () => (await read(bulkId)).counts.running === 1);
    await untilHolds(async () => {
      const { body } = await gateway.admin<StuckList>('/stuck?olderThanSeconds=0');
      const reasons = body.data.map((job) => job.reasons.at(-1));
      expect(reasons).toContain(`it is an item of ${bulkId}`);
    });
    await gateway.getWorkflow(bulkId).cancel();
    await until(async () => (await read(bulkId)).counts.canceled === 5);
    await gateway.sandbox.clearFaults();
    const ended = await untilDone(bulkId);
    expect(ended).toMatchObject({ status: 'canceled', counts: { waiting: 0, running: 0 } });
  });
});

describe('a workflow that continues as new', () => {
  let own: TestGateway;
  let workers: StudioWorkers;
  let connection: NativeConnection;
  beforeAll(async () => {
    own = await startGateway({ worker: false, sandboxEnv: { SANDBOX_TINY_MEDIA: '1' } });
    const { config, api } = own;
    connection = await connectWorkers(config);
    const workflowBundle = await bundleChanged([
      {
        file: 'studio-bulk.ts',
        from: 'historyLengthMax = 3000',
        to: 'historyLengthMax = 40',
      },
      {
        file: 'studio-bulk.ts',
        from: '    const isUnchanged =',
        // The end of the run of this bulk job coincides with an operator's cancellation.
        to: `    const { historyLength: length, continuedFromExecutionRunId: former } = workflowInfo();
        if (length > historyLengthMax && !former && state.total === 13)
          await condition(() => run.cancelRequested);
        const isUnchanged =`,
      },
    ]);
    workers = await startStudioWorkers({
      config,
      connection,
      services: api.services,
      workflowBundle,
    });
  });
  afterAll(async () => {
    workers.shutdown();
    await workers.done;
    await connection.close();
    await own.close();
  });

  /** Starts a bulk job in which some jobs outlast the run that started them. */
  async function start(count: number): Promise<string> {
    const items = pictures(count, `[[slow:700ms]] lasting lamp ${count}`);
    const { body } = await own.call<Body>(path, { body: { items, concurrency: 3 } });
    return body.data.bulkId;
  }

  it('ends each item once', async () => {
    const bulkId = await start(20);
    await own.getWorkflow(bulkId).result();
    expect(await own.call<Body>(`${path}/${bulkId}`)).toMatchObject({
      body: { data: { status: 'completed', counts: { completed: 20, failed: 0 } } },
    });
    expect(await own.sandbox.submits({ match: 'lasting lamp 20' })).toHaveLength(20);
    const query = `WorkflowId = '${bulkId}'`;
    await untilHolds(async () => {
      expect((await own.api.client.workflow.count(query)).count).toBeGreaterThan(2);
    });
    await own.expectSettled();
  });

  it('keeps a cancellation that arrives at its end', async () => {
    const bulkId = await start(13);
    await untilHolds(async () => {
      const { historyLength } = await own.getWorkflow(bulkId).describe();
      expect(historyLength).toBeGreaterThan(40);
    });
    await own.getWorkflow(bulkId).cancel();
    await own.getWorkflow(bulkId).result();
    expect(await own.call<Body>(`${path}/${bulkId}`)).toMatchObject({
      body: { data: { status: 'canceled', counts: { waiting: 0, running: 0 } } },
    });
  });
});

it('a bulk job cancels its running jobs if requested', async () => {
  await gateway.sandbox.inject({ match: 'ended lamp', faults: 'slow:60s', times: 6 });
  const bulkId = await accept({ items: pictures(6, 'ended lamp'), concurrency: 2 });
  await until(async () => (await gateway.sandbox.submits({ match: 'ended lamp' })).length === 2);
  await gateway.send(`${path}/${bulkId}/cancel`, { body: { items: 'all' } });
  expect((await untilDone(bulkId)).counts).toMatchObject({ canceled: 6, completed: 0 });
});

it('an exhausted window pauses a bulk job until it ends', async () => {
  const caller = await gateway.newCaller({ credits: 100, windowCredits: 9 });
  const bulkId = await accept({ items: pictures(4, 'window lamp'), concurrency: 1 }, caller.key);
  const paused = await until(async () => {
    const bulk = await read(bulkId, caller.key);
    return bulk.status === 'paused' && bulk;
  });
  expect(paused).toMatchObject({ stopReason: 'WINDOW_EXHAUSTED', done: false });
  expect(Date.parse(paused.resumeAt ?? '')).toBeGreaterThan(Date.now() + 5 * 3_600_000);
  // The lock of the paused bulk job keeps an item from reserving credits while its window moves.
  const end = `WITH paused AS (SELECT organization_id FROM bulk WHERE id = $1 AND status = 'paused' FOR UPDATE),
    moved AS (UPDATE reservation r SET window_started_at = r.window_started_at - interval '7 hours'
      FROM paused WHERE r.organization_id = paused.organization_id)
    UPDATE account a SET window_started_at = a.window_started_at - interval '7 hours'
      FROM paused WHERE a.organization_id = paused.organization_id`;
  for (let ended = paused; !ended.done;) {
    await gateway.database.query(end, [bulkId]);
    await gateway
      .getWorkflow(bulkId)
      .signal('bulkChanged')
      .catch(() => {});
    ended = (await gateway.call<Body>(`${path}/${bulkId}?wait=1`, { key: caller.key })).body.data;
  }
  expect((await read(bulkId, caller.key)).counts.completed).toBe(4);
});

it('a suspended organization stops its bulk job within one item', async () => {
  const caller = await gateway.newCaller();
  await gateway.sandbox.inject({ match: 'halted lamp', faults: 'slow:900s', times: 9 });
  const bulkId = await accept({ items: pictures(9, 'halted lamp'), concurrency: 1 }, caller.key);
  await until(async () => (await read(bulkId, caller.key)).counts.running === 1);
  const suspend = `UPDATE organization SET status = $2 WHERE id = $1`;
  await gateway.database.query(suspend, [caller.organizationId, 'suspended']);
  await gateway.sandbox.clearFaults();
  await untilHolds(async () => {
    const [bulk] = await gateway.database.query(
      `SELECT stop_reason, completed FROM bulk WHERE id = $1 AND completed_at IS NOT NULL`,
      [bulkId],
    );
    expect(bulk).toMatchObject({ stop_reason: 'ORGANIZATION_SUSPENDED' });
  });
  await gateway.database.query(suspend, [caller.organizationId, 'active']);
  expect((await read(bulkId, caller.key)).counts.completed).toBeLessThan(4);
});

it('too many failures stop a bulk job after twenty ends', async () => {
  await gateway.sandbox.inject({ match: 'poor lamp', faults: 'fail:400', times: 100 });
  const body = { items: pictures(40, 'poor lamp'), maxFailedPercent: 10, concurrency: 4 };
  const ended = await untilDone(await accept(body));
  expect(ended).toMatchObject({ status: 'stopped', stopReason: 'MAX_FAILED_PERCENT' });
  expect(ended.counts.failed).toBeLessThan(26);
  expect(ended.counts.failed).toBeGreaterThanOrEqual(20);
});

it('items that cannot be planned for a temporary reason wait behind the others, and start later', async () => {
  const text = { use: 'sfx/generate', body: { prompt: 'a click of a lamp', durationSeconds: 1 } };
  const first = { use: 'image/generate', body: { prompt: '[[slow:600s]] an early lamp' } };
  const items = [first, ...pictures(3, 'a later lamp'), text];
  const bulkId = await accept({ items, concurrency: 1 });
  await until(async () => (await gateway.sandbox.submits({ match: 'early lamp' })).length === 1);
  // The API has the keys of the providers when it accepts the items; then the worker lacks them.
  const { config } = gateway;
  const { PROVIDER_VARIABLES: complete } = config;
  const { FAL_KEY: _, OPENAI_IMAGES_API_KEY: __, ...reduced } = complete;
  config.PROVIDER_VARIABLES = reduced;
  await gateway.sandbox.clearFaults();
  try {
    await untilHolds(async () => {
      const { counts } = await read(bulkId);
      expect(counts).toMatchObject({ completed: 2, waiting: 3, failed: 0 });
    });
    const { body } = await gateway.call<{ data: object[] }>(
      `${path}/${bulkId}/items?state=waiting`,
    );
    expect(body.data[0]).toMatchObject({
      index: 1,
      error: { code: 'SERVICE_UNAVAILABLE', retryable: true },
    });
  } finally {
    config.PROVIDER_VARIABLES = complete;
  }
  const ended = await untilDone(bulkId);
  expect(ended).toMatchObject({ status: 'completed', counts: { completed: 5, failed: 0 } });
});

it('a bulk job ends whose last items fail before they start', async () => {
  const { fileId } = await uploadFile(gateway, await drawDisc(64, 64));
  const slow = {
    use: 'image/generate',
    body: { prompt: '[[slow:600s]] a lamp before deleted ones' },
  };
  const deleted = { use: 'image/upscale', body: { imageUrl: fileId } };
  const bulkId = await accept({ items: [slow, deleted, deleted, deleted], concurrency: 1 });
  await until(async () => (await gateway.sandbox.submits({ match: 'deleted ones' })).length === 1);
  await gateway.database.query('UPDATE upload SET deleted_at = now() WHERE id = $1', [fileId]);
  await gateway.sandbox.clearFaults();
  expect((await untilDone(bulkId)).counts).toMatchObject({ completed: 1, failed: 3 });
});

it('webhooks report that a bulk job pauses and ends', async () => {
  const caller = await gateway.newCaller({ credits: 5 });
  const webhookUrl = gateway.receiver.at('/bulk');
  const bulkId = await accept(
    { items: pictures(2, 'reported lamp'), concurrency: 1, webhookUrl },
    caller.key,
  );
  await until(async () => (await read(bulkId, caller.key)).status === 'paused');
  await gateway.operate(`/organizations/${caller.organizationId}/grants`, { credits: 50, id: 'g' });
  await untilDone(bulkId, caller.key);
  const received = () => gateway.receiver.received('/bulk').map(({ body }) => body.type);
  await untilHolds(() =>
    expect(received()).toEqual(['studio.bulk.paused', 'studio.bulk.completed']),
  );
  expect(gateway.receiver.received('/bulk')[0]?.body.data).toMatchObject({
    bulkId,
    status: 'paused',
    stopReason: 'INSUFFICIENT_CREDITS',
  });
});

it('an organization has a maximum number of open bulk jobs', async () => {
  const caller = await gateway.newCaller({ credits: 5 });
  const open = { items: pictures(1, 'a waiting lamp') };
  await gateway.sandbox.inject({ match: 'a waiting lamp', faults: 'slow:600s', times: 1 });
  for (let count = 0; count < 5; count += 1) await accept(open, caller.key);
  const rejected = await gateway.call<Body>(path, { body: open, key: caller.key });
  expect([rejected.status, rejected.body.error]).toEqual([429, 'BULK_LIMIT_REACHED']);
  const { data } = (await gateway.call<{ data: BulkResource[] }>(path, { key: caller.key })).body;
  for (const { cancelUrl } of data)
    await gateway.send(new URL(cancelUrl).pathname, { method: 'POST', key: caller.key });
  await accept(open, caller.key);
  await gateway.sandbox.clearFaults();
  await gateway.operate(`/organizations/${caller.organizationId}/grants`, { credits: 50, id: 'g' });
  await untilHolds(async () => {
    const bulks = await gateway.call<{ data: BulkResource[] }>(path, { key: caller.key });
    expect(bulks.body.data.filter(({ done }) => !done)).toEqual([]);
  });
});

it('results as CSV keep ids, start no formula, and begin with a byte order mark on request', async () => {
  const use = 'image/generate';
  const bulkId = await accept({
    items: [
      { id: '-12', use, body: { prompt: 'a "quoted", lamp' } },
      { id: '-a', use, body: { prompt: '[[fail:422]] a lamp' } },
      {
        id: '-c',
        use: 'chat',
        body: { model: 'gpt-5-nano', messages: [{ role: 'user', content: 'ahoy' }] },
      },
    ],
    concurrency: 1,
  });
  await untilDone(bulkId);
  await gateway.database.query(
    `UPDATE bulk_item SET error = jsonb_set(error::jsonb, '{message}', '"=cmd|''a"')
      WHERE bulk_id = $1 AND item_id = '-a'`,
    [bulkId],
  );
  const readCsv = async (query: string): Promise<string> => {
    const response = await fetch(`${gateway.url}${path}/${bulkId}/results?format=csv${query}`, {
      headers: { authorization: `Bearer ${gateway.caller.key}` },
    });
    expect(response.headers.get('content-type')).toContain('text/csv');
    return Buffer.from(await response.arrayBuffer()).toString();
  };
  const [head, ...lines] = (await readCsv(''))
    .split('\r\n')
    .map((line) => line.replaceAll('"', '|'));
  expect(head).toBe(
    '|index|,|id|,|round|,|jobId|,|status|,|credits|,|errorCode|,|errorMessage|,|urls|,|data|,|cursor|,|chatId|,|text|,|inputTokens|,|outputTokens|',
  );
  expect(lines).toContainEqual(
    expect.stringMatching(/^0,\|-12\|,1,\|job_\w+\|,\|completed\|,[\d.]+,,,\|http.*\|,\d,,,,$/),
  );
  expect(lines).toContainEqual(
    expect.stringMatching(
      /^1,\|-a\|,1,\|job_\w+\|,\|failed\|,0,\|PROVIDER_REJECTED_INPUT\|,\|'=cmd\|'a\|,,,\d,,,,$/,
    ),
  );
  expect(lines).toContainEqual(
    expect.stringMatching(
      /^2,\|-c\|,1,,\|completed\|,[\d.]+,,,\|\|,\|.*\|,\d+,\|chat_\w+\|,\|You said: ahoy\|,\d+,\d+$/,
    ),
  );
  expect(await readCsv('&bom=true')).toMatch(/^\uFEFF"index","id"/);
});

it('a pipeline is an item like any other', async () => {
  const steps = [{ id: 'art', use: 'image/generate', body: { prompt: 'a lamp of a pipeline' } }];
  const bulkId = await accept({ items: [{ use: 'pipelines', body: { steps } }] });
  const ended = await untilDone(bulkId);
  expect(ended.counts.completed).toBe(1);
  expect(microFromCredits(ended.credits.charged)).toBeGreaterThan(0);
});
