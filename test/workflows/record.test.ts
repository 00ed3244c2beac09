/** `npm run record-histories`: runs each way a job can end and writes its history down. */
import { afterAll, afterEach, beforeAll, describe, it, type ExpectStatic } from 'vitest';
import { startGateway, type TestGateway } from '../harness/gateway.ts';
import { recordHistory } from '../harness/histories.ts';
import { discPicture, download } from '../harness/media.ts';
import { startMediaServer, type MediaServer } from '../harness/media-server.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../harness/webhook-receiver.ts';

let gateway: TestGateway;
let media: MediaServer;
let receiver: WebhookReceiver;
/** Inputs that scenarios name by these words. */
const inputs: Record<string, string> = {};
/** What the transcriptions hear. */
let spokenUrl = '';
beforeAll(async () => {
  media = await startMediaServer();
  receiver = await startWebhookReceiver();
  gateway = await startGateway({
    admittedOrigins: [media.origin, receiver.origin],
    sandboxEnv: { SANDBOX_TINY_MEDIA: '1' },
    env: {
      IMAGE_DEADLINE_MS: '6000',
      OUTCOME_WAIT_MS: '1500',
      CHECK_INTERVAL_MS: '500',
      WEBHOOK_RETRY_DELAYS_MS: '200',
    },
  });
  inputs['picture'] = media.put('/picture.png', await discPicture(64, 64));
  const film = await gateway.call('/api/v1/studio/video/generate', { body: { prompt: 'a tree' } });
  const made = await gateway.untilDone(film.body.data.jobId);
  inputs['film'] = media.put('/film.mp4', await download(made.body.data.result.url));
  // Providers are told URLs: one of its own lets a fault find its job.
  for (const type of ['imageUpscale', 'imageRemoveBackground', 'imageBatch']) {
    inputs[`picture${type}`] = media.put(`/late-${type}.png`, await discPicture(64, 64));
  }
  for (const type of ['videoUpscale', 'videoRemoveBackground']) {
    const bytes = await download(made.body.data.result.url);
    inputs[`film${type}`] = media.put(`/late-${type}.mp4`, bytes);
  }
  const spoken = await gateway.call('/api/v1/studio/voiceover/generate', {
    body: { text: 'Hear me', title: 'Title' },
  });
  spokenUrl = spoken.body.data.url;
  inputs['soundaudioTranscribe'] = media.put(
    '/late-audioTranscribe.mp3',
    await download(spokenUrl),
  );
});
afterAll(async () => {
  await gateway.close();
  media.close();
  receiver.close();
});

interface Scenario {
  /** `<workflow type>.<how it ended>` */
  name: string;
  path: string;
  body: Record<string, unknown> | (() => Record<string, unknown>);
  status: string;
  /** When: once the provider has taken the work, or while it takes nothing. */
  cancel?: 'taken' | 'refused';
  /** Injected where no prompt can carry a marker. */
  faults?: { match?: string; faults: string; times?: number }[];
}

/** The three endings that every type has. */
function endings(type: string, path: string, body: Record<string, unknown>): Scenario[] {
  const slow = [{ faults: 'slow:60s', times: 1 }];
  return [
    { name: `${type}.completed`, path, body, status: 'completed' },
    { name: `${type}.failed`, path, body, status: 'failed', faults: [{ faults: 'fail:422' }] },
    { name: `${type}.canceled`, path, body, status: 'canceled', cancel: 'taken', faults: slow },
  ];
}

/** What provider's operation takes copies of inputs, in which no mark of theirs is left. */
const operationsOfCopies: Record<string, string> = {
  imageUpscale: 'topaz/upscale/image',
  videoUpscale: 'topaz/upscale/video',
  videoRemoveBackground: 'birefnet/v2/video',
};

/** Jobs whose deadline passes while the provider is silent; a mark in the input names each. */
const late: Scenario[] = [];
function addLate(type: string, path: string, body: Record<string, unknown>): void {
  const text = JSON.stringify(body);
  const mark = `late-${type}`;
  late.push({
    name: `${type}.failed-deadline`,
    path,
    body: () => JSON.parse(text.replaceAll('<mark>', mark).replace('_mark', type)) as typeof body,
    status: 'failed',
    // A provider that answers the request itself is silent only while the request is open.
    faults: [{ match: operationsOfCopies[type] ?? mark, faults: 'slow:9s', times: 1 }],
  });
}
addLate('imageEdit', '/api/v1/studio/image/edit', { prompt: '<mark>', imageUrls: ['<picture>'] });
addLate('imageUpscale', '/api/v1/studio/image/upscale', { imageUrl: '<picture_mark>' });
addLate('imageRemoveBackground', '/api/v1/studio/image/remove-background', {
  imageUrl: '<picture_mark>',
});
addLate('imageBatch', '/api/v1/studio/image/batch', {
  operation: 'remove-background',
  imageUrls: ['<picture_mark>'],
});
addLate('videoGenerate', '/api/v1/studio/video/generate', { prompt: '<mark>' });
addLate('videoUpscale', '/api/v1/studio/video/upscale', { videoUrl: '<film_mark>' });
addLate('videoRemoveBackground', '/api/v1/studio/video/remove-background', {
  videoUrl: '<film_mark>',
});
// A name of its own for the recording would reach the provider only with an upload.
addLate('audioTranscribe', '/api/v1/studio/audio/transcribe', { audioUrl: '<sound_mark>' });

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
    cancel: 'taken',
  },
  {
    name: 'imageGenerate.completed-second-route',
    path: image,
    body: { prompt: 'a tree', model: 'alpha-image-2' },
    status: 'completed',
    faults: [{ match: 'openai/gpt-image-2', faults: 'submit:503x99' }],
  },
  ...endings('imageEdit', '/api/v1/studio/image/edit', {
    prompt: 'a tree',
    imageUrls: ['<picture>'],
  }),
  ...endings('imageUpscale', '/api/v1/studio/image/upscale', { imageUrl: '<picture>' }),
  {
    name: 'imageUpscale.completed-in-steps',
    path: '/api/v1/studio/image/upscale',
    body: { imageUrl: '<picture>', scaleFactor: 6 },
    status: 'completed',
  },
  ...endings('imageRemoveBackground', '/api/v1/studio/image/remove-background', {
    imageUrl: '<picture>',
  }),
  ...endings('imageBatch', '/api/v1/studio/image/batch', {
    operation: 'remove-background',
    imageUrls: ['<picture>'],
  }),
  {
    name: 'imageBatch.completed-partly',
    path: '/api/v1/studio/image/batch',
    body: { operation: 'upscale', imageUrls: ['<picture>', '<picture>'], scaleFactor: 6 },
    status: 'completed',
    faults: [{ match: '"upscale_factor":2', faults: 'fail:422', times: 1 }],
  },
  ...endings('videoGenerate', '/api/v1/studio/video/generate', { prompt: 'a tree' }),
  ...endings('videoUpscale', '/api/v1/studio/video/upscale', { videoUrl: '<film>' }),
  ...endings('videoRemoveBackground', '/api/v1/studio/video/remove-background', {
    videoUrl: '<film>',
  }),
];

function withInputs(body: Record<string, unknown>): Record<string, unknown> {
  const text = JSON.stringify(body).replaceAll(/<(\w+)>/g, (_, name: string) => inputs[name] ?? '');
  return JSON.parse(text) as Record<string, unknown>;
}

const prompt = 'a tune';
const audio: { type: string; path: string; body: (words: string) => Record<string, unknown> }[] = [
  {
    type: 'voiceoverGenerate',
    path: '/api/v1/studio/voiceover/generate',
    body: (text) => ({ text, title: 'Title' }),
  },
  {
    type: 'dialogueGenerate',
    path: '/api/v1/studio/dialogue/generate',
    body: (text) => ({ title: 'Title', inputs: [{ voiceId: 'adam', text }] }),
  },
  {
    type: 'musicPlan',
    path: '/api/v1/studio/music/plan',
    body: (words) => ({ prompt: words, music_length_ms: 5000 }),
  },
  {
    type: 'musicGenerate',
    path: '/api/v1/studio/music/generate',
    body: (words) => ({ prompt: words, durationSeconds: 5, coverPrompt: `${words} on a cover` }),
  },
  {
    type: 'sfxGenerate',
    path: '/api/v1/studio/sfx/generate',
    body: (words) => ({ prompt: words, durationSeconds: 1 }),
  },
  {
    type: 'audioTranscribe',
    path: '/api/v1/studio/audio/transcribe',
    body: (fileName) => ({ fileName, audioUrl: spokenUrl }),
  },
];
for (const { type, path, body } of audio) {
  const bodyOf = (marker: string) => () => body(`${marker} ${prompt}`);
  if (type !== 'audioTranscribe') {
    const slow = { path, body: bodyOf('[[slow:9s]]'), status: 'failed' };
    late.push({ name: `${type}.failed-deadline`, ...slow });
  }
  scenarios.push(
    { name: `${type}.completed`, path, body: bodyOf(''), status: 'completed' },
    { name: `${type}.failed`, path, body: bodyOf('[[policy]]'), status: 'failed' },
    {
      name: `${type}.failed-outcome-unknown`,
      path,
      body: bodyOf('[[reset-after-accept]] [[no-webhook]]'),
      status: 'failed',
    },
    {
      name: `${type}.canceled`,
      path,
      body: bodyOf('[[submit:503x50]]'),
      status: 'canceled',
      cancel: 'refused',
    },
  );
}
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
async function play(scenario: Scenario, expect: ExpectStatic, on = gateway): Promise<void> {
  for (const fault of scenario.faults ?? []) await on.sandbox.inject(fault);
  const accepted = await on.call(scenario.path, {
    body: withInputs(typeof scenario.body === 'function' ? scenario.body() : scenario.body),
    headers: { prefer: 'respond-async' },
  });
  expect(accepted.status).toBe(202);
  const { jobId } = accepted.body.data;
  if (scenario.cancel) {
    const taken = scenario.cancel === 'taken' ? 1 : 0;
    await expect.poll(() => on.sandbox.submits({ jobId })).toHaveLength(taken);
    await on.call(`/api/v1/studio/jobs/${jobId}/cancel`, { method: 'POST' });
  }
  const done = await on.untilDone(jobId);
  expect(done.body.data.status).toBe(scenario.status);
  const handle = on.api.client.workflow.getHandle(jobId);
  await handle.result().catch(() => {});
  // Recording is a decision of its own; an ordinary run only proves that each ending is reached.
  if (process.env['RECORD_HISTORIES'] === '1') await recordHistory(scenario.name, handle);
}

const named = scenarios.map((scenario) => [scenario.name, scenario] as const);

// Most of a scenario is waiting: they wait together, unless faults are injected for whoever comes next.
describe.concurrent('each way a job can end', () => {
  it.for(named.filter(([, { faults }]) => !faults))('%s', ([, scenario], { expect }) =>
    play(scenario, expect),
  );
});

/** What a receiver answers to the first attempt and to the second, and how the delivery ends. */
const deliveries = [
  { name: 'completed', statuses: [200] },
  { name: 'completed-retried', statuses: [500, 200] },
  { name: 'failed', statuses: [500, 500] },
  { name: 'failed-gone', statuses: [410] },
];

describe.concurrent('each way a webhook can end', () => {
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
    const ended = delivery.result().then(
      () => 'completed',
      () => 'failed',
    );
    expect(name).toMatch(new RegExp(`^${await ended}`));
    if (process.env['RECORD_HISTORIES'] !== '1') return;
    await recordHistory(`webhookDelivery.${name}`, delivery);
    if (name === 'completed') {
      await recordHistory('imageGenerate.completed-told', workflow.getHandle(jobId));
    }
  });
});

describe('the deadline of each type', () => {
  let hasty: TestGateway;
  beforeAll(async () => {
    hasty = await startGateway({
      admittedOrigins: [media.origin, new URL(spokenUrl).origin],
      sandboxEnv: { SANDBOX_TINY_MEDIA: '1' },
      env: {
        IMAGE_DEADLINE_MS: '2500',
        VIDEO_DEADLINE_MS: '2500',
        AUDIO_DEADLINE_MS: '2500',
        OUTCOME_WAIT_MS: '1500',
        CHECK_INTERVAL_MS: '500',
      },
    });
  });
  afterAll(() => hasty.close());
  it.concurrent.for(late.map((scenario) => [scenario.name, scenario] as const))(
    '%s',
    ([, scenario], { expect }) => play(scenario, expect, hasty),
  );
});

describe('each way a job can end, by a fault of its own', () => {
  afterEach(() => gateway.sandbox.clearFaults());
  it.for(named.filter(([, { faults }]) => faults))('%s', ([, scenario], { expect }) =>
    play(scenario, expect),
  );
});
