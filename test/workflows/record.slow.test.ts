/**
 * `npm run dev -- record-histories`: runs a job for each possible end and writes its history to a
 * file.
 */
import type { WorkflowHandle } from '@temporalio/client';
import { afterAll, afterEach, beforeAll, describe, it, type ExpectStatic } from 'vitest';
import type { BulkResource } from '../../bulk/bulk-view.ts';
import { startGateway, type TestGateway } from '../harness/gateway.ts';
import { recordHistories } from '../harness/histories.ts';
import { drawDisc } from '../harness/media.ts';
import { until } from '../harness/until.ts';

let gateway: TestGateway;
/** Workflows that have ended, by the name of their scenario. */
const ended = new Map<string, WorkflowHandle>();
/** URL of an input, which scenarios write as `<picture>`. */
let picture: string;
beforeAll(async () => {
  // The recorded histories depend on all settings. The time limits are long enough for a busy machine.
  gateway = await startGateway({
    sandboxEnv: { SANDBOX_TINY_MEDIA: '1' },
    env: {
      IMAGE_DEADLINE_MS: '40000',
      OUTCOME_WAIT_MS: '12000',
      FIRST_CHECK_MAX_MS: '500',
      WEBHOOK_RETRY_DELAYS_MS: '200',
    },
  });
  picture = gateway.media.put('/picture.png', await drawDisc(64, 64));
});
afterAll(async () => {
  // Without this variable, the test only proves that each end is reached.
  if (process.env['RECORD_HISTORIES'] === '1') {
    const runs = [...ended].map(([name, handle]) => ({ name, handle }));
    await recordHistories(runs.toSorted((one, other) => one.name.localeCompare(other.name)));
  }
  await gateway.close();
});

interface Scenario {
  /** `<workflow type>.<end>`; the end begins with the status of the job. */
  name: string;
  /** Path below /api/v1/studio. */
  path: string;
  body: object;
  /** Decision about the step `cut`, once it waits. */
  decision?: object;
  /** Time of a cancel: after the provider has accepted the call, or while it rejects it. */
  cancel?: 'accepted' | 'rejected';
  /** Faults of the sandbox, for requests whose prompt cannot contain a marker. */
  faults?: { match?: string; faults: string; times?: number }[];
}

type ScenarioFields = Partial<Scenario>;
const image = (end: string, prompt: string, { body, ...more }: ScenarioFields = {}): Scenario => ({
  name: `imageGenerate.${end}`,
  path: '/image/generate',
  body: { prompt, ...body },
  ...more,
});
const video = (end: string, prompt: string): Scenario => {
  return { name: `videoGenerate.${end}`, path: '/video/generate', body: { prompt } };
};
const voiceover = (end: string, text: string, more: ScenarioFields = {}): Scenario => ({
  name: `voiceoverGenerate.${end}`,
  path: '/voiceover/generate',
  body: { text, title: 'Title' },
  ...more,
});
const longText = 'word '.repeat(300);
/** Steps `art`, its two dependents `cut` and `big`, and `voice` beside them. */
const pipeline = (
  end: string,
  prompts: [art: string, voice: string],
  more: ScenarioFields = {},
) => ({
  name: `pipeline.${end}`,
  path: '/pipelines',
  body: {
    steps: [
      { id: 'art', use: 'image/generate', body: { prompt: prompts[0] } },
      { id: 'cut', use: 'image/remove-background', body: { imageUrl: { $from: 'art' } } },
      { id: 'big', use: 'image/upscale', body: { imageUrl: { $from: 'cut' } }, maxCredits: 8 },
      { id: 'voice', use: 'voiceover/generate', body: { text: prompts[1], title: 'Title' } },
    ],
  },
  ...more,
});
/** Steps of which one awaits an approval. */
const approvedSteps = [
  { id: 'art', use: 'image/generate', body: { prompt: 'a tree', numImages: 2 } },
  {
    id: 'cut',
    use: 'image/remove-background',
    approve: true,
    body: { imageUrl: { $from: 'art', output: 'chosen' } },
  },
];
const approval = { decision: 'approve', outputs: { art: 1 } };
const scenarios: Scenario[] = [
  image('completed', 'a tree'),
  image('completed-several-calls', 'a tree', { body: { numImages: 9 } }),
  image('completed-lost-webhook', '[[no-webhook]] [[slow:1200ms]] a tree'),
  image('completed-adopted', '[[reset-after-accept]] a tree'),
  image('completed-retried', '[[submit:503x2]] a tree'),
  image('completed-hung-submit', '[[hang-submit]] [[slow:4s]] a tree'),
  image('completed-store-retried', '[[result:503x1]] a tree'),
  image('completed-second-route', 'a tree', {
    body: { model: 'alpha-image-2' },
    faults: [{ match: 'openai/gpt-image-2', faults: 'submit:503x99' }],
  }),
  image('failed', '[[fail-result:500]] a tree'),
  image('failed-rejected', '[[submit:422]] a tree'),
  image('failed-deadline', '[[slow:120s]] a tree'),
  image('failed-outcome-unknown', '[[reset-after-accept]] [[no-webhook]] a tree'),
  image('canceled', '[[slow:600s]] a tree', { cancel: 'accepted' }),
  {
    name: 'imageUpscale.completed-in-steps',
    path: '/image/upscale',
    body: { imageUrl: '<picture>', scaleFactor: 6 },
  },
  {
    name: 'imageBatch.completed-partly',
    path: '/image/batch',
    body: { operation: 'upscale', imageUrls: ['<picture>', '<picture>'], scaleFactor: 6 },
    faults: [{ match: '"upscale_factor":2', faults: 'fail:422', times: 1 }],
  },
  video('completed', 'a tree'),
  video('failed', '[[policy]] a tree'),
  pipeline('completed', ['a tree', 'a tune']),
  {
    name: 'pipeline.completed-chain',
    path: '/pipelines',
    body: {
      steps: [
        { id: 'art', use: 'image/generate', body: { prompt: 'a tree' } },
        { id: 'big', use: 'image/upscale', body: { imageUrl: { $from: 'art' } }, maxCredits: 8 },
        { id: 'cut', use: 'image/remove-background', body: { imageUrl: { $from: 'big' } } },
      ],
    },
  },
  {
    name: 'pipeline.completed-approved',
    path: '/pipelines',
    body: { steps: approvedSteps, webhookUrl: '<receiver>' },
    decision: approval,
  },
  {
    name: 'pipeline.completed-unapproved',
    path: '/pipelines',
    body: { steps: approvedSteps },
    decision: { decision: 'reject', reason: 'too dark' },
  },
  pipeline('completed-partly', ['[[policy]] a tree', 'a tune']),
  pipeline('failed', ['[[policy]] a tree', '[[policy]] a tune']),
  pipeline('canceled', ['[[slow:600s]] a tree', '[[policy]] a tune'], { cancel: 'accepted' }),
  voiceover('completed', 'a tune'),
  voiceover('failed', '[[policy]] a tune'),
  voiceover('failed-outcome-unknown', '[[reset-after-accept]] a tune'),
  voiceover('canceled', '[[submit:503x50]] a tune', { cancel: 'rejected' }),
  {
    name: 'musicGenerate.completed',
    path: '/music/generate',
    body: { prompt: 'a tune', durationSeconds: 5, coverPrompt: 'a cover' },
  },
  {
    name: 'dialogueGenerate.completed-several-calls',
    path: '/dialogue/generate',
    body: {
      title: 'Title',
      inputs: ['adam', 'aria'].map((voiceId) => ({ voiceId, text: longText })),
    },
  },
];

/** Runs a scenario to its end. `expect` is the test's own: several run at the same time. */
async function play(scenario: Scenario, expect: ExpectStatic): Promise<void> {
  for (const fault of scenario.faults ?? []) await gateway.sandbox.inject(fault);
  const response = await gateway.call(`/api/v1/studio${scenario.path}`, {
    body: JSON.stringify(scenario.body)
      .replaceAll('<picture>', picture)
      .replaceAll('<receiver>', gateway.receiver.at('/waits')),
    headers: { prefer: 'respond-async' },
  });
  expect(response.status).toBe(202);
  const { jobId } = response.body.data;
  if (scenario.cancel) {
    if (scenario.cancel === 'accepted') await gateway.untilAccepted(jobId);
    await gateway.cancel(jobId);
  }
  if (scenario.decision) {
    const path = `/api/v1/studio/jobs/${jobId}/steps/cut/decision`;
    // The step does not wait yet.
    await until(async () => {
      const answer = await gateway.call(path, { body: scenario.decision });
      return answer.status === 200;
    });
  }
  const done = await gateway.untilDone(jobId);
  const [, status] = /\.([a-z]+)/.exec(scenario.name) ?? [];
  expect(done.body.data.status, JSON.stringify(done.body)).toBe(status);
  const handle = gateway.getWorkflow(jobId);
  await handle.result().catch(() => {});
  ended.set(scenario.name, handle);
}

const named = scenarios.map((scenario) => [scenario.name, scenario] as const);

// Scenarios run in parallel, except those whose faults apply to the next request of any scenario.
describe.concurrent('each end of a job', () => {
  it.for(named.filter(([, { faults }]) => !faults))('%s', ([, scenario], { expect }) =>
    play(scenario, expect),
  );
});

/** Responses of a receiver to the attempts of a delivery, and the end of the delivery. */
const deliveries = [
  { name: 'completed', statuses: [200] },
  { name: 'completed-retried', statuses: [500, 200] },
  { name: 'failed', statuses: [500, 500] },
  { name: 'failed-gone', statuses: [410] },
];

describe.concurrent('each end of a webhook delivery', () => {
  it.for(deliveries)('webhookDelivery.$name', async ({ name, statuses }, { expect }) => {
    const webhookUrl = gateway.receiver.at(`/${name}`, (response, count) => {
      response.writeHead(statuses[count - 1] ?? 500).end();
    });
    const jobId = await gateway.startImage({ prompt: 'a tree', webhookUrl });
    await gateway.getWorkflow(jobId).result();
    const delivery = gateway.api.client.workflow.getHandle(`${jobId}-webhook`);
    const end = delivery.result().then(
      () => 'completed',
      () => 'failed',
    );
    expect(name).toMatch(new RegExp(`^${await end}`));
    ended.set(`webhookDelivery.${name}`, delivery);
    ended.set('imageGenerate.completed-with-webhook', gateway.getWorkflow(jobId));
  });
});

interface Body {
  data: BulkResource;
}

interface BulkActionBody {
  data: { bulkActionId: string; done: number };
}

/** Bulk jobs of items that cost between 2.5 and 5 credits, and their end. */
const bulks = [
  { name: 'completed', count: 3 },
  { name: 'completed-resumed', count: 3, credits: 5 },
  { name: 'completed-approved', count: 3, steps: approvedSteps },
  { name: 'stopped', count: 3, maxCredits: 5 },
  { name: 'canceled', count: 4, prompt: '[[slow:600s]] a tree' },
];

describe.concurrent('each end of a bulk job', () => {
  it.for(bulks)('studioBulk.$name', async (scenario, { expect }) => {
    const { name, count, credits = 1000, prompt = 'a tree', maxCredits, steps } = scenario;
    const { key, organizationId } = await gateway.newCaller({ credits });
    const webhookUrl = gateway.receiver.at(`/bulk-${name}`);
    const item = steps
      ? { use: 'pipelines', body: { steps } }
      : { use: 'image/generate', body: { prompt } };
    const items = Array.from({ length: count }, () => item);
    const path = '/api/v1/studio/bulk';
    const body = { items, concurrency: 2, webhookUrl, ...(maxCredits && { maxCredits }) };
    const { bulkId } = (await gateway.call<Body>(path, { body, key })).body.data;
    const read = async () => (await gateway.call<Body>(`${path}/${bulkId}`, { key })).body.data;
    if (name === 'canceled') {
      await until(async () => (await read()).counts.running === 2);
      await gateway.send(`${path}/${bulkId}/cancel`, { body: { items: 'all' }, key });
    }
    if (steps) {
      await until(async () => (await read()).counts.awaiting === count);
      const decision = { items: 'all', ...approval };
      const { data } = (
        await gateway.call<Body>(`${path}/${bulkId}/decisions`, { body: decision, key })
      ).body;
      expect(data).toMatchObject({ decided: count, remaining: 0 });
    }
    if (name === 'completed-resumed') {
      await until(async () => (await read()).status === 'paused');
      await gateway.operate(`/organizations/${organizationId}/grants`, { credits: 50, id: 'more' });
    }
    const handle = gateway.getWorkflow(bulkId);
    await handle.result();
    const [status] = name.split('-');
    expect(await read()).toMatchObject({ status, done: true, counts: { running: 0 } });
    ended.set(`studioBulk.${name}`, handle);
  });
});

describe('each end of a bulk action', () => {
  it.for(['completed', 'canceled'])('bulkAction.%s', async (status, { expect }) => {
    const { key, organizationId } = await gateway.newCaller();
    for (const prompt of ['a tree', 'a pier', 'a hill'])
      await gateway.untilDone(await gateway.startImage({ prompt }, key), key);
    const filter = { organizationId };
    const body = { action: 'refund', filter, dryRun: false, perSecond: 1 };
    const { data } = (await gateway.admin<BulkActionBody>('/bulk-actions', body)).body;
    const handle = gateway.getWorkflow(data.bulkActionId);
    const read = () => gateway.admin<BulkActionBody>(`/bulk-actions/${data.bulkActionId}`);
    if (status === 'canceled') {
      await until(async () => (await read()).body.data.done === 1);
      await handle.cancel();
    }
    expect(await handle.result()).toMatchObject({ status });
    ended.set(`bulkAction.${status}`, handle);
  });
});

/** Chat jobs, and their ends. */
const chats = [
  { status: 'completed', content: 'a tree' },
  { status: 'failed', content: '[[words:20]] [[stream-error:5]]' },
  { status: 'canceled', content: '[[words:5000]] [[slow-chunks:50ms]]' },
  { status: 'rejected', content: 'a tree', credits: 0 },
];

describe.concurrent('each end of a chat job', () => {
  it.for(chats)('chatAnswer.$status', async ({ status, content, credits = 10 }, { expect }) => {
    const { key, organizationId } = await gateway.newCaller({ credits });
    const body = { model: 'gpt-4o', messages: [{ role: 'user', content }], async: true };
    const answer = await gateway.call('/api/v1/chat', { key, body });
    if (status === 'rejected') expect(answer.status).toBe(402);
    else {
      const { jobId } = answer.body.data;
      const path = `/api/v1/studio/jobs/${jobId}`;
      if (status === 'canceled') {
        await until(async () => {
          const { data } = (await gateway.call(path, { key })).body;
          return data.status === 'in_progress';
        });
        await gateway.cancel(jobId, key);
      }
      expect((await gateway.untilDone(jobId, key)).body.data.status).toBe(status);
    }
    const query = `WorkflowType = "chatAnswer" AND OrganizationId = "${organizationId}"`;
    const workflowId = await until(async () => {
      for await (const run of gateway.api.client.workflow.list({ query })) return run.workflowId;
      return null;
    });
    const handle = gateway.getWorkflow(workflowId);
    await handle.result().catch(() => {});
    ended.set(`chatAnswer.${status}`, handle);
  });
});

describe('each end of a job that a fault causes', () => {
  afterEach(() => gateway.sandbox.clearFaults());
  it.for(named.filter(([, { faults }]) => faults))('%s', ([, scenario], { expect }) =>
    play(scenario, expect),
  );
});
