/** With payload keys, Temporal stores nothing readable, and all features still work. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { Client } from '@temporalio/client';
import { Worker } from '@temporalio/worker';
import { historyToJSON, payloadToJSON } from '@temporalio/common/lib/proto-utils.js';
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { readWorkflow, type WorkflowState } from '../../executions/workflow-state.ts';
import { codecAccessToken, createDataConverter } from '../../platform/payload-codec.ts';
import { findTemporalCli } from '../../dev/stack/temporal-cli.ts';
import { loadWorkflowBundle } from '../../worker/bundle.ts';
import { startGateway, type TestGateway } from '../harness/gateway.ts';
import type { SpawnedProcess } from '../harness/running-gateway.ts';

const key = (id: string): string => `${id}:${randomBytes(32).toString('base64url')}`;
const [old, young] = [key('old'), key('young')];
const uiOrigin = 'http://ui.example:8233';
const codecPath = '/api/admin/v1/temporal/codec';
/** Text in every prompt, which must not be found. */
const canary = `canary-${randomBytes(6).toString('hex')}`;

let gateway: TestGateway;
let worker: SpawnedProcess;
beforeAll(async () => {
  // First step of a rotation: all processes have the next key, and none encrypts with it yet.
  gateway = await startGateway({
    worker: false,
    env: {
      PAYLOAD_KEYS: `${old},${young}`,
      TEMPORAL_UI_ORIGINS: uiOrigin,
      FIRST_CHECK_MAX_MS: '300',
      IMAGE_DEADLINE_MS: '20000',
    },
  });
  worker = await gateway.spawn('worker');
});
afterEach(() => gateway.expectSettled());
afterAll(() => gateway.close());

/** Starts a job, by default of an image; the path is below /api/v1/studio. */
async function start(body: object, path = '/image/generate'): Promise<string> {
  const started = await gateway.call(`/api/v1/studio${path}`, { body: { async: true, ...body } });
  expect(started.status).toBeOneOf([200, 202]);
  return started.body.data.jobId;
}

/** Runs an image job whose prompt begins with the canary. */
async function run(text: string): Promise<string> {
  const jobId = await start({ prompt: `${canary} ${text}` });
  expect((await gateway.untilDone(jobId)).body.data.status).toBe('completed');
  return jobId;
}

/** Replaces the worker, as a deployment does. */
async function replaceWorker(env: Record<string, string>): Promise<void> {
  const { child } = worker;
  worker = await gateway.spawn('worker', env);
  child.kill('SIGTERM');
  await once(child, 'exit');
}

type History = Parameters<typeof historyToJSON>[0];
type ServicePayload = Parameters<typeof payloadToJSON>[0];

/** Reads the history as the server stores it, without decoding. */
async function readRawHistory(jobId: string): Promise<History> {
  const { history } = await gateway.api.client.workflowService.getWorkflowExecutionHistory({
    namespace: 'default',
    execution: { workflowId: jobId },
  });
  if (!history) throw new Error('the workflow has a history');
  return history;
}

/** Returns every payload of a history with its path. */
function listPayloads(node: unknown, path = ''): [string, ServicePayload][] {
  if (typeof node !== 'object' || node === null || ArrayBuffer.isView(node)) return [];
  if ('metadata' in node && 'data' in node) return [[path, node as ServicePayload]];
  return Object.entries(node).flatMap(([name, child]) => listPayloads(child, `${path}.${name}`));
}

const readMetadata = (payload: ServicePayload, name: string): string =>
  Buffer.from(payload.metadata?.[name] ?? []).toString();

/** Returns the JSON of a history with all base64 decoded. */
function decodeBase64(text: string): string {
  const decoded = [...text.matchAll(/"([A-Za-z0-9+/]{16,}={0,2})"/g)].map(([, word = '']) =>
    Buffer.from(word, 'base64').toString('latin1'),
  );
  return [text, ...decoded].join('\n');
}

describe('Temporal with payload keys', () => {
  it('stores no readable prompt, result or failure message', async () => {
    const prompt = `a ${canary} lighthouse`;
    const jobs = [
      await start({ prompt }),
      await start({ prompt: `[[fail:422]] ${prompt}` }),
      await start({ prompt: `[[no-webhook]] ${prompt}` }),
      await start({ text: prompt, title: canary }, '/voiceover/generate'),
      await start({ prompt }, '/music/generate'),
      await start({ prompt }, '/video/generate'),
    ];
    const ends = await Promise.all(jobs.map((jobId) => gateway.untilDone(jobId)));
    const statuses = ends.map(({ body }) => body.data.status);
    expect(statuses).toEqual(['completed', 'failed', ...Array(4).fill('completed')]);
    for (const jobId of jobs) {
      const history = await readRawHistory(jobId);
      expect(decodeBase64(historyToJSON(history)).includes(canary)).toBe(false);
      // Search attributes, the ids in headers (request, trace), and what the SDK records of local
      // activities (name, attempt, time) are not encrypted.
      const clear = listPayloads(history).filter(
        ([, entry]) => readMetadata(entry, 'encoding') !== 'binary/encrypted',
      );
      const mayBeClear =
        /\.(searchAttributes|header|markerRecordedEventAttributes\.details\.data)\./;
      expect(clear.map(([path]) => path).filter((path) => !mayBeClear.test(path))).toEqual([]);
      expect(listPayloads(history).length).toBeGreaterThan(clear.length + 3);
    }
    // Neither the message nor the stack traces of the failed job are readable.
    const failed = decodeBase64(historyToJSON(await readRawHistory(jobs[1] ?? '')));
    expect(failed).toContain('Encoded failure');
    expect(/ {4}at \S+ /.test(failed)).toBe(false);
  });

  it('shows operators the last error of a retried activity', async () => {
    const jobId = await start({ prompt: `[[submit:503x9;retry-after=2]] ${canary} retried` });
    const retries = async (): Promise<unknown> =>
      (await gateway.admin<{ data: { workflow: WorkflowState } }>(`/jobs/${jobId}`)).body.data
        .workflow.retries;
    const lastError = expect.stringContaining('503');
    await expect.poll(retries).toMatchObject([{ activity: 'submit', lastError }]);
    const keyless = new Client({ connection: gateway.api.client.connection });
    await expect
      .poll(async () => (await readWorkflow(keyless, jobId)).retries)
      .toMatchObject([{ activity: 'submit' }]);
    await gateway.cancel(jobId);
    expect((await gateway.untilDone(jobId)).body.data.status).toBe('canceled');
  });

  it('replays stored histories only with the keys', async () => {
    const jobId = await run('again');
    const history = await readRawHistory(jobId);
    const workflowBundle = await loadWorkflowBundle({ encodeFailures: true });
    const dataConverter = createDataConverter(gateway.config);
    await Worker.runReplayHistory({ workflowBundle, dataConverter }, history, jobId);
    await expect(Worker.runReplayHistory({ workflowBundle }, history, jobId)).rejects.toThrow();
  });

  it('continues a job whose key changes while it runs', async () => {
    const jobId = await start({ prompt: `[[slow:60s]] [[no-webhook]] ${canary} rotates` });
    await gateway.untilAccepted(jobId);
    await replaceWorker({ PAYLOAD_KEYS: `${young},${old}` });
    await gateway.cancel(jobId);
    expect((await gateway.untilDone(jobId)).body.data.status).toBe('canceled');
    const keyIds = listPayloads(await readRawHistory(jobId)).map(([, payload]) =>
      readMetadata(payload, 'encryption-key-id'),
    );
    expect([...new Set(keyIds)].toSorted()).toEqual(['', 'old', 'young']);
  });
});

type RequestOptions = Omit<RequestInit, 'headers'> & { headers?: Record<string, string> };

describe('the codec endpoint', () => {
  let payloads: unknown[];
  beforeAll(async () => {
    const jobId = await run('shown');
    const [started] = (await readRawHistory(jobId)).events ?? [];
    const input = started?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
    payloads = input.map(payloadToJSON);
  });
  const request = (path: string, init: RequestOptions = {}) =>
    fetch(`${gateway.url}${codecPath}${path}`, {
      method: 'POST',
      body: JSON.stringify({ payloads }),
      ...init,
      headers: { 'content-type': 'application/json', origin: uiOrigin, ...init.headers },
    });
  const authorize = () => ({
    headers: { authorization: `Bearer ${gateway.config.ADMIN_API_KEY}` },
  });
  const readFirstData = async (response: Response): Promise<string> => {
    const { payloads: decoded } = (await response.json()) as { payloads: { data: string }[] };
    return Buffer.from(decoded[0]?.data ?? '', 'base64').toString();
  };

  it('decrypts for the operator, at the address that the web UI receives', async () => {
    expect(await readFirstData(await request('/decode', authorize()))).toContain(`${canary} shown`);
    const token = codecAccessToken(gateway.config.ADMIN_API_KEY);
    const withToken = await request(`/read/${token}/decode`);
    expect(withToken.headers.get('access-control-allow-origin')).toBe(uiOrigin);
    expect(withToken.headers.get('cache-control')).toBe('no-store');
    expect(await readFirstData(withToken)).toContain(`${canary} shown`);
  });

  it('encrypts its decrypted payloads again', async () => {
    const plain = { payloads: [{ metadata: { encoding: btoa('json/plain') }, data: btoa('"x"') }] };
    const sealed = await request('/encode', { ...authorize(), body: JSON.stringify(plain) });
    const body = (await sealed.json()) as typeof plain;
    expect(atob(body.payloads[0]?.metadata.encoding ?? '')).toBe('binary/encrypted');
    const opened = await request('/decode', { ...authorize(), body: JSON.stringify(body) });
    expect(await opened.json()).toEqual(plain);
  });

  it('decrypts for no other caller', async () => {
    const token = codecAccessToken(gateway.config.ADMIN_API_KEY);
    const rejected = [
      await request('/decode'),
      await request('/encode'),
      await request('/decode', { headers: { authorization: `Bearer ${gateway.caller.key}` } }),
      await request('/decode', { headers: { authorization: `Bearer ${token}` } }),
      await request('/read/x/decode'),
      await request(`/read/${token}x/decode`),
      await request(`/read/${token.toLowerCase()}/decode`),
    ];
    for (const response of rejected) {
      expect(response.status).toBe(401);
      expect(await response.text()).toBe('{"error":"Unauthorized"}');
    }
    // The token allows decryption, but not encryption.
    expect((await request(`/read/${token}/encode`)).status).toBeOneOf([404, 405]);
  });

  it('accepts browser requests from the configured origins only', async () => {
    const preflight = (origin: string) =>
      request('/decode', { method: 'OPTIONS', body: null, headers: { origin } });
    const allowed = await preflight(uiOrigin);
    expect(allowed.status).toBe(204);
    expect(allowed.headers.get('access-control-allow-headers')).toContain('x-namespace');
    for (const origin of ['http://evil.example', 'null', `${uiOrigin}.evil.example`]) {
      const rejected = await preflight(origin);
      expect(rejected.headers.get('access-control-allow-origin')).toBeNull();
    }
  });

  it('returns unknown payloads unchanged, and rejects bodies that are not payloads', async () => {
    const foreign = {
      metadata: { encoding: btoa('binary/encrypted'), 'encryption-key-id': btoa('lost') },
      data: btoa('x'.repeat(60)),
    };
    const mixed = { payloads: [foreign, payloads[0]] };
    const response = await request('/decode', { ...authorize(), body: JSON.stringify(mixed) });
    const decoded = (await response.json()) as { payloads: (typeof foreign)[] };
    expect(decoded.payloads[0]).toEqual(foreign);
    expect(Buffer.from(decoded.payloads[1]?.data ?? '', 'base64').toString()).toContain(canary);
    for (const body of ['{}', '{"payloads":1}', '{"payloads":[{"data":"*"}]}', '[]', 'x']) {
      expect((await request('/decode', { ...authorize(), body })).status).toBe(400);
    }
  });

  it('shows a job in the Temporal CLI to the operator', async () => {
    const jobId = await run('told');
    const cli = await findTemporalCli();
    const show = async (...more: string[]): Promise<string> => {
      const target = ['--address', inject('temporalAddress'), '--workflow-id', jobId];
      const args = ['workflow', 'show', ...target, '--output', 'json', ...more];
      return decodeBase64((await promisify(execFile)(cli, args, { maxBuffer: 2 ** 26 })).stdout);
    };
    expect((await show()).includes(canary)).toBe(false);
    const endpoint = `${gateway.url}${codecPath}`;
    const authority = `Bearer ${gateway.config.ADMIN_API_KEY}`;
    expect(await show('--codec-endpoint', endpoint, '--codec-auth', authority)).toContain(
      `${canary} told`,
    );
  });
});

it('encryption that is switched off keeps encrypted payloads readable, and encrypts no new ones', async () => {
  await replaceWorker({ PAYLOAD_ENCRYPTION: 'false' });
  const jobId = await run('mixed');
  const encodings = listPayloads(await readRawHistory(jobId)).map(([, payload]) =>
    readMetadata(payload, 'encoding'),
  );
  expect(encodings).toEqual(expect.arrayContaining(['binary/encrypted', 'json/plain']));
});
