/**
 * `npm run dev -- record-histories`: runs a job for each possible end and writes its history to a
 * file.
 */
import type { WorkflowHandle } from '@temporalio/client';
import { afterAll, afterEach, beforeAll, describe, it, type ExpectStatic } from 'vitest';
import { startGateway, type TestGateway } from '../harness/gateway.ts';
import { recordHistories } from '../harness/histories.ts';
import { discPicture } from '../harness/media.ts';
import { startMediaServer, type MediaServer } from '../harness/media-server.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../harness/webhook-receiver.ts';

let gateway: TestGateway;
let media: MediaServer;
let receiver: WebhookReceiver;
/** Workflows that have ended, by the name of their scenario. */
const ended = new Map<string, WorkflowHandle>();
/** Inputs by the name that scenarios use. */
const inputs: Record<string, string> = {};
beforeAll(async () => {
  media = await startMediaServer();
  receiver = await startWebhookReceiver();
  // The recorded histories depend on all settings.
  gateway = await startGateway({
    admittedOrigins: [media.origin, receiver.origin],
    sandboxEnv: { SANDBOX_TINY_MEDIA: '1' },
    env: {
      IMAGE_DEADLINE_MS: '15000',
      OUTCOME_WAIT_MS: '4000',
      FIRST_CHECK_MAX_MS: '500',
      WEBHOOK_RETRY_DELAYS_MS: '200',
    },
  });
  inputs['picture'] = media.put('/picture.png', await discPicture(64, 64));
});
afterAll(async () => {
  // Without this variable, the test only proves that each end is reached.
  if (process.env['RECORD_HISTORIES'] === '1') {
    const runs = [...ended].map(([name, handle]) => ({ name, handle }));
    await recordHistories(runs.toSorted((one, other) => one.name.localeCompare(other.name)));
  }
  await gateway.close();
  media.close();
  receiver.close();
});

interface Scenario {
  /** `<workflow type>.<end>` */
  name: string;
  path: string;
  body: Record<string, unknown> | (() => Record<string, unknown>);
  status: string;
  /** Time of a cancel: after the provider has accepted the call, or while it refuses it. */
  cancel?: 'accepted' | 'refused';
  /** Faults of the sandbox, for requests whose prompt cannot contain a marker. */
  faults?: { match?: string; faults: string; times?: number }[];
}

const image = '/api/v1/studio/image/generate';
const scenarios: Scenario[] = [
  { name: 'imageGenerate.completed', path: image, body: { prompt: 'a tree' }, status: 'completed' },
  {
    name: 'imageGenerate.completed-several-calls',
    path: image,
    body: { prompt: 'a tree', numImages: 9 },
    status: 'completed',
  },
  {
    name: 'imageGenerate.completed-lost-webhook',
    path: image,
    body: { prompt: '[[no-webhook]] [[slow:1200ms]] a tree' },
    status: 'completed',
  },
  {
    name: 'imageGenerate.completed-adopted',
    path: image,
    body: { prompt: '[[reset-after-accept]] a tree' },
    status: 'completed',
  },
  {
    name: 'imageGenerate.completed-retried',
    path: image,
    body: { prompt: '[[submit:503x2]] a tree' },
    status: 'completed',
  },
  {
    name: 'imageGenerate.failed',
    path: image,
    body: { prompt: '[[fail-result:500]] a tree' },
    status: 'failed',
  },
  {
    name: 'imageGenerate.failed-rejected',
    path: image,
    body: { prompt: '[[submit:422]] a tree' },
    status: 'failed',
  },
  {
    name: 'imageGenerate.failed-deadline',
    path: image,
    body: { prompt: '[[slow:60s]] a tree' },
    status: 'failed',
  },
  {
    name: 'imageGenerate.failed-outcome-unknown',
    path: image,
    body: { prompt: '[[reset-after-accept]] [[no-webhook]] a tree' },
    status: 'failed',
  },
  {
    name: 'imageGenerate.canceled',
    path: image,
    body: { prompt: '[[slow:60s]] a tree' },
    status: 'canceled',
    cancel: 'accepted',
  },
  {
    name: 'imageGenerate.completed-second-route',
    path: image,
    body: { prompt: 'a tree', model: 'alpha-image-2' },
    status: 'completed',
    faults: [{ match: 'openai/gpt-image-2', faults: 'submit:503x99' }],
  },
  {
    name: 'imageGenerate.completed-hung-submit',
    path: image,
    body: { prompt: '[[hang-submit]] [[slow:4s]] a tree' },
    status: 'completed',
  },
  {
    name: 'imageGenerate.completed-store-retried',
    path: image,
    body: { prompt: '[[result:503x1]] a tree' },
    status: 'completed',
  },
  {
    name: 'imageUpscale.completed-in-steps',
    path: '/api/v1/studio/image/upscale',
    body: { imageUrl: '<picture>', scaleFactor: 6 },
    status: 'completed',
  },
  {
    name: 'imageBatch.completed-partly',
    path: '/api/v1/studio/image/batch',
    body: { operation: 'upscale', imageUrls: ['<picture>', '<picture>'], scaleFactor: 6 },
    status: 'completed',
    faults: [{ match: '"upscale_factor":2', faults: 'fail:422', times: 1 }],
  },
  {
    name: 'videoGenerate.completed',
    path: '/api/v1/studio/video/generate',
    body: { prompt: 'a tree' },
    status: 'completed',
  },
  {
    name: 'videoGenerate.failed',
    path: '/api/v1/studio/video/generate',
    body: { prompt: '[[policy]] a tree' },
    status: 'failed',
  },
];

function withInputs(body: Record<string, unknown>): Record<string, unknown> {
  const text = JSON.stringify(body).replaceAll(/<(\w+)>/g, (_, name: string) => inputs[name] ?? '');
  return JSON.parse(text) as Record<string, unknown>;
}

const voiceover = '/api/v1/studio/voiceover/generate';
const speaking = (text: string) => ({ text, title: 'Title' });
scenarios.push(
  {
    name: 'voiceoverGenerate.completed',
    path: voiceover,
    body: speaking('a tune'),
    status: 'completed',
  },
  {
    name: 'voiceoverGenerate.failed',
    path: voiceover,
    body: speaking('[[policy]] a tune'),
    status: 'failed',
  },
  {
    name: 'voiceoverGenerate.failed-outcome-unknown',
    path: voiceover,
    body: speaking('[[reset-after-accept]] a tune'),
    status: 'failed',
  },
  {
    name: 'voiceoverGenerate.canceled',
    path: voiceover,
    body: speaking('[[submit:503x50]] a tune'),
    status: 'canceled',
    cancel: 'refused',
  },
  {
    name: 'musicGenerate.completed',
    path: '/api/v1/studio/music/generate',
    body: { prompt: 'a tune', durationSeconds: 5, coverPrompt: 'a cover' },
    status: 'completed',
  },
);
scenarios.push({
  name: 'dialogueGenerate.completed-several-calls',
  path: '/api/v1/studio/dialogue/generate',
  body: {
    title: 'Title',
    inputs: [
      { voiceId: 'adam', text: 'word '.repeat(300) },
      { voiceId: 'aria', text: 'word '.repeat(300) },
    ],
  },
  status: 'completed',
});

/** Runs a scenario to its end. `expect` is the test's own: several run at the same time. */
async function play(scenario: Scenario, expect: ExpectStatic): Promise<void> {
  for (const fault of scenario.faults ?? []) await gateway.sandbox.inject(fault);
  const response = await gateway.call(scenario.path, {
    body: withInputs(typeof scenario.body === 'function' ? scenario.body() : scenario.body),
    headers: { prefer: 'respond-async' },
  });
  expect(response.status).toBe(202);
  const { jobId } = response.body.data;
  if (scenario.cancel) {
    const accepted = scenario.cancel === 'accepted' ? 1 : 0;
    await expect.poll(() => gateway.sandbox.submits({ jobId })).toHaveLength(accepted);
    await gateway.call(`/api/v1/studio/jobs/${jobId}/cancel`, { method: 'POST' });
  }
  const done = await gateway.untilDone(jobId);
  expect(done.body.data.status, JSON.stringify(done.body)).toBe(scenario.status);
  const handle = gateway.api.client.workflow.getHandle(jobId);
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
    const webhookUrl = receiver.at(`/${name}`, (response, count) => {
      response.writeHead(statuses[count - 1] ?? 500).end();
    });
    const accepted = await gateway.call(image, {
      body: { prompt: 'a tree', async: true, webhookUrl },
    });
    const { jobId } = accepted.body.data;
    const { workflow } = gateway.api.client;
    await workflow.getHandle(jobId).result();
    const delivery = workflow.getHandle(`${jobId}-webhook`);
    const end = delivery.result().then(
      () => 'completed',
      () => 'failed',
    );
    expect(name).toMatch(new RegExp(`^${await end}`));
    ended.set(`webhookDelivery.${name}`, delivery);
    ended.set('imageGenerate.completed-with-webhook', workflow.getHandle(jobId));
  });
});

describe('each end of a job that a fault causes', () => {
  afterEach(() => gateway.sandbox.clearFaults());
  it.for(named.filter(([, { faults }]) => faults))('%s', ([, scenario], { expect }) =>
    play(scenario, expect),
  );
});
