/** Events of a job that its webhook reports: the start, and each end, as the request lists them. */
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { createRelays } from '../../process/services.ts';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });
interface Page {
  data: { jobId: string; event: string; state: string }[];
  nextCursor: string | null;
}

const imagePath = '/api/v1/studio/image/generate';
/** Starts a job whose webhook goes to this path, and reports these events. */
const start = (prompt: string, path: string, webhookEvents: string[], fields: object = {}) =>
  gateway.startImage({
    prompt,
    webhookUrl: gateway.receiver.at(path),
    webhookEvents,
    ...fields,
  });

describe('a webhook with the event started', () => {
  it('reports the start once, while the job runs, and then the end', async () => {
    const jobId = await start('[[slow:600ms]] an early heron', '/both', ['started', 'completed']);
    // Each of the two has a workflow of its own, so on a busy machine the end can arrive first.
    const hooks = await gateway.receiver.untilReceived('/both', 2);
    const [completed, started, ...others] = hooks.toSorted((one, other) =>
      one.body.type.localeCompare(other.body.type),
    );
    expect(started?.body).toMatchObject({
      type: 'studio.job.started',
      data: { jobId, status: 'in_progress', done: false, startedAt: started?.body.timestamp },
    });
    expect(completed?.body).toMatchObject({ type: 'studio.job.completed', data: { jobId } });
    expect(others).toEqual([]);
    const secret = await gateway.call<{ secret: string }>('/api/v1/webhooks/secret');
    for (const hook of [started, completed]) {
      new Webhook(secret.body.secret).verify(hook?.text ?? '', hook?.headers ?? {});
    }
    expect(completed?.headers['webhook-id']).not.toBe(started?.headers['webhook-id']);
  });

  it('is in the lists of deliveries beside the end, page by page', async () => {
    const { key } = await gateway.newCaller();
    const jobIds: string[] = [];
    for (const path of ['/listed-1', '/listed-2']) {
      const fields = { prompt: 'a listed heron', webhookUrl: gateway.receiver.at(path) };
      const webhookEvents = ['started', 'completed'];
      jobIds.push(await gateway.startImage({ ...fields, webhookEvents }, key));
      await gateway.receiver.untilReceived(path, 2);
    }
    const listed: { jobId: string; event: string; state: string }[] = [];
    const deliveries = '/api/v1/webhooks/deliveries?limit=1';
    await expect
      .poll(async () => {
        listed.length = 0;
        for (let cursor: string | null = ''; cursor !== null;) {
          const path: string = `${deliveries}${cursor && `&cursor=${cursor}`}`;
          const { body } = await gateway.call<Page>(path, { key });
          listed.push(...body.data);
          cursor = body.nextCursor;
        }
        return listed.map(({ jobId, event, state }) => [jobId, event, state]);
      })
      .toEqual(
        jobIds
          .toReversed()
          .flatMap((jobId) => ['started', 'ended'].map((event) => [jobId, event, 'delivered'])),
      );
    const wrong = await gateway.call(`${deliveries}&cursor=org_1`, { key });
    expect(wrong).toMatchObject({ status: 400, body: { details: [{ path: 'cursor' }] } });
  });

  it('reports the start of a job with several calls once', async () => {
    await start('a flock of herons', '/calls', ['started', 'completed'], { numImages: 4 });
    const hooks = await gateway.receiver.untilReceived('/calls', 2);
    const types = hooks.map(({ body }) => body.type).toSorted();
    expect(types).toEqual(['studio.job.completed', 'studio.job.started']);
  });

  it('reports no start of a job that no provider accepted', async () => {
    await start('[[submit:422]] a heron without a pond', '/rejected', ['started', 'failed']);
    const hooks = await gateway.receiver.untilReceived('/rejected');
    expect(hooks.map(({ body }) => body.type)).toEqual(['studio.job.failed']);
  });
});

describe('a webhook that reports only the start', () => {
  const readWebhook = (jobId: string) =>
    gateway.call<{ data: { event: string; state: string; deliveries: object[] } }>(
      `/api/v1/studio/jobs/${jobId}/webhook`,
    );

  it('is shown with its deliveries, sent again on request, and resumed by the sweeper', async () => {
    const jobId = await start('[[slow:600s]] a first heron', '/start-only', ['started']);
    const [first] = await gateway.receiver.untilReceived('/start-only');
    const shown = { event: 'started', deliveries: [{ outcome: 'delivered', number: 1 }] };
    await expect
      .poll(() => readWebhook(jobId))
      .toMatchObject({ status: 200, body: { data: shown } });
    const redeliver = `/api/v1/studio/jobs/${jobId}/webhook/redeliver`;
    const early = await gateway.call(redeliver, { method: 'POST' });
    expect(early.body.error).toBe('JOB_NOT_DONE');
    await gateway.cancel(jobId);
    await gateway.untilDone(jobId);
    expect(await readWebhook(jobId)).toMatchObject({ status: 200, body: { data: shown } });
    expect(await gateway.admin(`/jobs/${jobId}/webhook`)).toMatchObject({
      status: 200,
      body: { data: shown },
    });
    expect((await gateway.call(redeliver, { method: 'POST' })).status).toBe(202);
    const [, second] = await gateway.receiver.untilReceived('/start-only', 2);
    expect(second?.body.type).toBe('studio.job.started');
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id']);
    await expect.poll(async () => (await readWebhook(jobId)).body.data.state).toBe('delivered');

    // Like a redelivery whose workflow could not be started.
    await gateway.database.query(
      `UPDATE webhook SET state = 'delivering', attempts_before = attempts, overdue_at = now()
       WHERE job_id = $1`,
      [jobId],
    );
    const { services, client } = gateway.api;
    await createRelays(services, client, gateway.config).webhookRelay.resume();
    await gateway.receiver.untilReceived('/start-only', 3);
  });

  it('is not shown for a job that no provider accepted', async () => {
    const jobId = await start('[[submit:422]] a first heron', '/no-start', ['started']);
    await gateway.untilDone(jobId);
    expect(await readWebhook(jobId)).toMatchObject({ status: 404, body: { error: 'NOT_FOUND' } });
  });
});

describe('a webhook about a step that awaits an approval', () => {
  const steps = [
    { id: 'art', use: 'image/generate', body: { prompt: 'a heron to choose' } },
    {
      id: 'cut-out',
      use: 'image/remove-background',
      approve: true,
      body: { imageUrl: { $from: 'art' } },
    },
  ];
  interface Waiting {
    jobId: string;
    done: boolean;
    awaiting: { step: string; since: string; takes: object[] }[];
  }
  const startWaiting = async (path: string, fields: object = {}): Promise<string> => {
    const webhookUrl = gateway.receiver.at(path);
    const body = { steps, async: true, webhookUrl, ...fields };
    const started = await gateway.call<{ data: Waiting }>('/api/v1/studio/pipelines', { body });
    expect(started.status, JSON.stringify(started.body)).toBe(202);
    return started.body.data.jobId;
  };
  const readJob = (jobId: string) =>
    gateway.call<{ data: Waiting }>(`/api/v1/studio/jobs/${jobId}`);
  const decide = (jobId: string) =>
    gateway.call(`/api/v1/studio/jobs/${jobId}/steps/cut-out/decision`, {
      body: { decision: 'approve' },
    });

  it('is sent once for the step, listed, and sent again with the newest state', async () => {
    const jobId = await startWaiting('/waits');
    const [first] = await gateway.receiver.untilReceived('/waits');
    const data = first?.body.data as unknown as Waiting;
    expect(first?.body).toMatchObject({
      type: 'studio.job.awaiting_approval',
      timestamp: data.awaiting[0]?.since,
      data: { jobId, done: false, awaiting: [{ step: 'cut-out', takes: [{ step: 'art' }] }] },
    });
    const webhookPath = `/jobs/${jobId}/webhook`;
    const at = `/api/v1/studio${webhookPath}`;
    const shown = { event: 'awaiting_approval', step: 'cut-out', state: 'delivered' };
    await expect
      .poll(() => gateway.call(`${at}?step=cut-out`))
      .toMatchObject({ body: { data: { ...shown, deliveries: [{ number: 1 }] } } });
    expect(await gateway.admin(`${webhookPath}?step=cut-out`)).toMatchObject({
      body: { data: shown },
    });
    const list = await gateway.call<{ data: object[] }>('/api/v1/webhooks/deliveries');
    expect(list.body.data.slice(0, 2)).toMatchObject([
      { jobId, ...shown },
      { jobId, event: 'ended', step: null, state: 'waiting' },
    ]);
    const other = await gateway.call(`${at}?step=art`);
    expect(other).toMatchObject({ status: 404, body: { error: 'NOT_FOUND' } });

    // A delivery whose workflow could not be started, as the sweeper finds it.
    await gateway.database.query(
      `UPDATE webhook SET state = 'delivering', attempts_before = attempts, overdue_at = now()
       WHERE subject_id = $1`,
      [`${jobId.replace('job_', 'wait_')}_cut-out`],
    );
    const { services, client } = gateway.api;
    await createRelays(services, client, gateway.config).webhookRelay.resume();
    const [, second] = await gateway.receiver.untilReceived('/waits', 2);
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id']);

    expect((await decide(jobId)).status).toBe(200);
    await gateway.untilDone(jobId);
    const ends = await gateway.receiver.untilReceived('/waits', 3);
    expect(ends[2]?.body.type).toBe('studio.job.completed');
    const again = await gateway.call(`${at}/redeliver?step=cut-out`, { method: 'POST' });
    expect(again, JSON.stringify(again.body)).toMatchObject({
      status: 202,
      body: { data: { step: 'cut-out' } },
    });
    const [, , , late] = await gateway.receiver.untilReceived('/waits', 4);
    expect(late?.headers['webhook-id']).toBe(first?.headers['webhook-id']);
    expect(late?.body).toMatchObject({
      type: 'studio.job.awaiting_approval',
      timestamp: first?.body.timestamp,
      data: { status: 'completed', awaiting: [] },
    });
  });

  it('is not sent if the request lists other events', async () => {
    const jobId = await startWaiting('/silent-wait', { webhookEvents: ['completed'] });
    await expect.poll(async () => (await readJob(jobId)).body.data.awaiting.length).toBe(1);
    expect((await decide(jobId)).status).toBe(200);
    await gateway.untilDone(jobId);
    const [end] = await gateway.receiver.untilReceived('/silent-wait');
    expect(end?.body.type).toBe('studio.job.completed');
    const answer = await gateway.call(`/api/v1/studio/jobs/${jobId}/webhook?step=cut-out`);
    expect(answer).toMatchObject({ status: 404, body: { error: 'NOT_FOUND' } });
  });
});

describe('an end that the request does not list', () => {
  it('is not sent, and the job then has no webhook', async () => {
    const jobId = await start('a silent heron', '/failed-only', ['failed', 'canceled']);
    expect((await gateway.untilDone(jobId)).body.data.status).toBe('completed');
    await gateway.getWorkflow(jobId).result();
    const { services, client } = gateway.api;
    const { webhookRelay } = createRelays(services, client, gateway.config);
    const path = `/api/v1/studio/jobs/${jobId}/webhook/redeliver`;
    expect((await gateway.call(path, { method: 'POST' })).status).toBe(202);
    await webhookRelay.resume();
    const rows = `SELECT 1 FROM webhook WHERE subject_id LIKE '%' || $1`;
    expect(await gateway.database.query(rows, [jobId.replace('job_', '')])).toEqual([]);
    expect(gateway.receiver.received('/failed-only')).toEqual([]);
  });
});

describe('webhookEvents', () => {
  const webhookUrl = 'https://shop.example/hooks';
  it.each([
    ['without a webhookUrl', { webhookEvents: ['started'] }, 'requires webhookUrl'],
    ['with an unknown event', { webhookUrl, webhookEvents: ['begun'] }, 'must be one of started'],
    ['without an event', { webhookUrl, webhookEvents: [] }, 'must be an array of 1–5'],
    [
      'with a repeated event',
      { webhookUrl, webhookEvents: ['failed', 'failed'] },
      'must not repeat an event',
    ],
  ])('%s are rejected, and nothing is reserved', async (_title, fields, message) => {
    const answer = await gateway.call(imagePath, { body: { prompt: 'a heron', ...fields } });
    expect(answer.status).toBe(400);
    expect(answer.body.details[0]?.path).toMatch(/^webhookEvents/);
    expect(answer.body.message).toContain(message);
  });
});
