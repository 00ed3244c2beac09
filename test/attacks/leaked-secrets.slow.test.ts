/**
 * Every secret of a gateway is a canary, a string that occurs nowhere else. After a mixed run with
 * failures and forged requests, in processes that log at every level, no canary occurs in logs,
 * responses, histories, tables or command lines.
 */
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { beforeAll, describe, expect, it } from 'vitest';
import { codecAccessToken } from '../../platform/payload-codec.ts';
import { freePort } from '../../dev/stack/free-port.ts';
import { useOwnGateway } from '../harness/gateway.ts';
import type { SpawnedProcess } from '../harness/running-gateway.ts';

const canary = (name: string): string => `CANARY_${name}_${randomBytes(24).toString('hex')}`;
const secrets: Record<string, string> = {
  STORAGE_SECRET: canary('storage'),
  KEY_PEPPER: canary('pepper'),
  WEBHOOK_SECRET: canary('webhook'),
  WEBHOOK_SIGNING_SECRET: canary('signing'),
  ADMIN_API_KEY: canary('admin'),
  FAL_KEY: canary('fal'),
  OPENAI_IMAGES_API_KEY: canary('openai-images'),
  ELEVENLABS_API_KEY: canary('elevenlabs'),
  SANDBOX_CHAT_KEY: canary('chat'),
  S3_SECRET_ACCESS_KEY: canary('s3'),
  OPENAI_API_KEY: canary('openai'),
  ANTHROPIC_API_KEY: canary('anthropic'),
};
const payloadKey = randomBytes(32).toString('base64url');

const port = await freePort();
const base = `http://127.0.0.1:${port}`;
const processes: SpawnedProcess[] = [];
const answers: string[] = [];
const jobs = new Set<string>();

// Secrets of its own, which it searches for in everything that is stored.
const gateway = useOwnGateway(
  {
    worker: false,
    admittedOrigins: [base],
    env: {
      ...secrets,
      PAYLOAD_KEYS: `canary:${payloadKey}`,
      // Off: what Temporal keeps must be harmless without it.
      PAYLOAD_ENCRYPTION: 'false',
      PUBLIC_BASE_URL: base,
      FIRST_CHECK_MAX_MS: '300',
      OUTCOME_WAIT_MS: '1500',
      // No server listens at these providers’ URLs: their chats fail.
      OPENAI_BASE_URL: 'http://127.0.0.1:9/v1',
      ANTHROPIC_BASE_URL: 'http://127.0.0.1:9',
    },
    sandboxEnv: {
      SANDBOX_FAL_KEY: secrets['FAL_KEY'] ?? '',
      SANDBOX_OPENAI_KEY: secrets['OPENAI_IMAGES_API_KEY'] ?? '',
      SANDBOX_ELEVENLABS_KEY: secrets['ELEVENLABS_API_KEY'] ?? '',
      SANDBOX_CHAT_KEY: secrets['SANDBOX_CHAT_KEY'] ?? '',
      SANDBOX_TINY_MEDIA: '1',
    },
  },
  'never',
);
beforeAll(async () => {
  const env = { LOG_LEVEL: 'debug' };
  processes.push(await gateway.spawn('api', { ...env, API_PORT: String(port) }));
  processes.push(await gateway.spawn('worker', env));
});

interface RequestOptions {
  method?: string;
  key?: string;
  headers?: Record<string, string>;
  body?: unknown;
}

/** Sends a request to the process whose logs are read, and stores the whole response. */
async function ask(path: string, options: RequestOptions = {}): Promise<Record<string, unknown>> {
  const { key = gateway.caller.key, headers, body } = options;
  const answer = await fetch(base + path, {
    method: options.method ?? (body === undefined ? 'GET' : 'POST'),
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  answers.push(`${path} ${JSON.stringify([...answer.headers])} ${text}`);
  for (const [id] of text.matchAll(/job_[0-9a-f]{32}/g)) jobs.add(id);
  return answer.headers.get('content-type')?.includes('json') ? JSON.parse(text) : {};
}

const studio = (path: string, body: object, headers: Record<string, string> = {}) =>
  ask(`/api/v1/studio/${path}`, { body, headers });

/** Sends requests of every kind, successful and failing. */
async function sendMixedRequests(): Promise<void> {
  const picture = { prompt: 'a tall tree' };
  await Promise.all([
    studio('image/generate', picture, { 'idempotency-key': 'once' }),
    studio('image/generate', { ...picture, model: 'alpha-image-2' }),
    studio('image/generate', { prompt: '[[fail:422]] a rejected tree' }),
    studio('image/generate', { prompt: '[[fail:500]] a broken tree' }),
    studio('image/generate', { prompt: '[[bad-signature]] a forged tree' }),
    studio('voiceover/generate', { text: 'a tall tree', title: 'tree' }),
    studio('sfx/generate', { prompt: 'a tall tree falls' }),
    studio('music/generate', { prompt: 'a tall song' }),
    studio('video/generate', { prompt: 'a tall film' }),
    studio('image/generate', { prompt: 1 }),
    studio('image/generate', { ...picture, imageUrls: 'http://127.0.0.1:9/x.png' }),
    studio('image/generate', { ...picture, imageUrls: 'https://unknown.invalid/x.png' }),
  ]);
  const messages = [{ role: 'user', content: 'a tall tree' }];
  const { data: models = [] } = (await ask('/api/v1/models?limit=1000')) as {
    data?: { id: string }[];
  };
  expect(models.length).toBeGreaterThan(50);
  for (const model of ['gpt-5-mini', 'claude-sonnet-4.5', 'mistral-small', models[0]?.id]) {
    await ask('/api/v1/chat', { body: { model, messages } });
    await ask('/api/v1/chat/completions', { body: { model, messages, stream: true } });
  }
  const upload = await ask('/api/v1/storage/upload-url', { body: { contentType: 'image/png' } });
  await ask(new URL(String(upload['uploadUrl'])).pathname, { method: 'PUT', body: 'no picture' });
  const admin = (path: string, body?: object) =>
    ask(`/api/admin/v1/${path}`, { key: gateway.config.ADMIN_API_KEY, body });
  for (const key of ['gk_live_nonsense', gateway.config.ADMIN_API_KEY, secrets['FAL_KEY'] ?? '']) {
    await ask('/api/v1/usage', { key });
  }
  for (const path of ['organizations', 'jobs', 'reservations', 'audit', 'actions', 'nothing']) {
    await admin(path);
  }
  await admin('temporal/codec/encode', {
    payloads: [{ metadata: { encoding: btoa('json/plain') }, data: btoa('"x"') }],
  });
  for (const jobId of Array.from(jobs)) {
    await ask(`/api/v1/studio/jobs/${jobId}?wait=30`);
    await admin(`jobs/${jobId}`);
    await ask(`/hooks/fal/${jobId}/0/${'x'.repeat(43)}`, { body: { request_id: 'x' } });
  }
  for (const path of [
    '/api/v1/studio/jobs',
    '/api/v1/usage',
    '/api/v1/api-keys',
    '/readyz',
    '/healthz',
    '/metrics',
    '/docs',
    '/llms.txt',
    '/%',
    '/api/v1/openapi.json',
  ]) {
    await ask(path);
  }
}

/** Returns a text with its base64 parts decoded and appended. */
function decode(text: string): string {
  const decoded = [...text.matchAll(/"([A-Za-z0-9+/]{16,}={0,2})"/g)].map(([, word = '']) =>
    Buffer.from(word, 'base64').toString('latin1'),
  );
  return [text, ...decoded].join('\n');
}

async function readHistories(): Promise<string> {
  const { workflow } = gateway.api.client;
  const all = [...jobs].map((jobId) =>
    workflow
      .getHandle(jobId)
      .fetchHistory()
      .then(historyToJSON, () => ''),
  );
  return decode((await Promise.all(all)).join('\n'));
}

async function readTables(): Promise<string> {
  const names = await gateway.database.query<{ name: string }>(
    `SELECT quote_ident(tablename) AS name FROM pg_tables WHERE schemaname = 'public'`,
  );
  expect(names.length).toBeGreaterThan(10);
  const rows = await Promise.all(
    names.map(({ name }) =>
      gateway.database.query<{ row: string }>(`SELECT to_jsonb(t)::text AS row FROM ${name} t`),
    ),
  );
  const text = rows.flatMap((table) => table.map(({ row }) => row)).join('\n');
  // bytea comes as hexadecimal.
  const bytes = [...text.matchAll(/\\\\x([0-9a-f]{16,})/g)].map(([, hex = '']) =>
    Buffer.from(hex, 'hex').toString('latin1'),
  );
  return [text, ...bytes].join('\n');
}

/** Returns the values that must not occur, by name, in each encoding. */
function listForbidden(): [string, string][] {
  const password = new URL(gateway.database.url).password;
  return [
    ...Object.entries(secrets),
    ['PAYLOAD_KEYS', payloadKey] as [string, string],
    ['an API key', gateway.caller.key] as [string, string],
    ...(password ? [['the password of Postgres', password] as [string, string]] : []),
  ].flatMap(([name, word]): [string, string][] => [
    [name, word],
    [`${name} in base64`, Buffer.from(word).toString('base64').slice(0, 40)],
    [`${name} in hexadecimal`, Buffer.from(word).toString('hex')],
    [`${name} backwards`, word.split('').toReversed().join('')],
  ]);
}

describe('canary secrets', () => {
  let found: Record<string, string>;
  beforeAll(async () => {
    await sendMixedRequests();
    const commandLines = await Promise.all(
      processes.map(({ child }) => readFile(`/proc/${child.pid}/cmdline`, 'utf8').catch(() => '')),
    );
    const logs = processes.flatMap(({ lines, errors }) => [
      ...lines.map((line) => JSON.stringify(line)),
      ...errors,
    ]);
    found = {
      logs: logs.join('\n'),
      answers: answers.join('\n'),
      histories: await readHistories(),
      tables: await readTables(),
      'command lines': commandLines.join('\n'),
    };
  });

  it('are searched in non-empty logs, responses, histories and tables', () => {
    expect(jobs.size).toBeGreaterThanOrEqual(9);
    const [jobId = ''] = jobs;
    for (const place of ['logs', 'answers', 'histories', 'tables']) {
      expect(found[place]?.includes(jobId), place).toBe(true);
      expect(found[place]?.length, place).toBeGreaterThan(5000);
    }
    expect(found['histories']).toContain('a tall tree');
    expect(found['tables']).toContain('failed');
    expect(found['logs']).toContain('request.answered');
  });

  it.each(['logs', 'answers', 'histories', 'tables', 'command lines'])(
    'do not occur in the %s',
    (place) => {
      const text = found[place] ?? '';
      const hits = listForbidden()
        .filter(([, word]) => text.includes(word))
        .map(([name]) => name);
      expect(hits).toEqual([]);
      expect(text.includes('CANARY_')).toBe(false);
    },
  );

  it('do not leak as signed URLs, notification URLs or codec passwords, and the logs contain no prompts', () => {
    const word = codecAccessToken(secrets['ADMIN_API_KEY'] ?? '');
    for (const place of ['logs', 'histories', 'tables']) {
      const text = found[place] ?? '';
      expect(/[?&]signature=/.test(text), `${place}: a signed URL`).toBe(false);
      expect(/\/hooks\/fal\/job_/.test(text), `${place}: an address`).toBe(false);
      expect(text.includes(word), place).toBe(false);
    }
    expect(found['logs']?.includes('a tall tree'), 'prompts in the logs').toBe(false);
  });
});
