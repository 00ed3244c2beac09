/**
 * Bodies that arrive slowly or not at all: one organization, or clients without a key, cannot slow
 * another organization's requests, and leave no files or rows.
 */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import {
  callerEndpoints,
  openEndpoints,
  operatorEndpoints,
  protocolEndpoints,
  type RequestedEndpoint,
} from '../harness/endpoints.ts';
import { openRequest, type RawRequest } from '../harness/raw-requests.ts';
import { signUpload } from '../harness/uploads.ts';

const megabyte = 1024 * 1024;

const gateway = useGateway({ settled: 'last' });
let other: TestCaller;
beforeAll(async () => {
  other = await gateway.newCaller({ credits: 1000 });
  await measureOther();
});

/** Runs a chat and a job of the other organization; returns the time they took together. */
async function measureOther(): Promise<number> {
  const startedAt = performance.now();
  const [chat, job] = await Promise.all([
    gateway.call('/api/v1/chat', {
      key: other.key,
      body: { model: 'gpt-4o', messages: [{ role: 'user', content: 'hi' }], max_tokens: 20 },
    }),
    gateway.call('/api/v1/studio/image/generate', { key: other.key, body: { prompt: 'a boat' } }),
  ]);
  expect([chat.status, job.status]).toEqual([200, 200]);
  return performance.now() - startedAt;
}

type Headers = Record<string, string>;
interface Unfinished {
  bytes: number;
  text?: string | Buffer;
  headers?: Headers;
  method?: string;
}

/** Opens a request that announces `bytes` of a body and sends only `text`. */
function open(path: string, { bytes, text = '', headers, method }: Unfinished): RawRequest {
  const type = { 'content-type': 'application/json', 'content-length': bytes };
  const opened = openRequest(gateway.url + path, { ...type, ...headers }, method);
  if (text.length > 0) opened.client.write(text);
  return opened;
}

/** A route to send a body to. */
interface Route {
  method: string;
  requestPath: string;
  headers: Headers;
}

/** Routes that only accept forms. */
const forms = new Set(['/api/v1/files', '/api/v1/images/edits', '/api/v1/audio/transcriptions']);

const toHeaders = ({ key }: { key: string }) => ({ authorization: `Bearer ${key}` });

/** Makes ten keys of one organization without credits, and returns their headers. */
async function makeTenKeys(): Promise<Headers[]> {
  const { key } = await gateway.newCaller({ credits: 0 });
  const made = await Promise.all(Array.from({ length: 9 }, () => gateway.newKey({}, key)));
  return [{ key }, ...made].map(toHeaders);
}

describe('silent clients', () => {
  it('without a key, and with ten keys of one organization, do not delay another organization', async () => {
    const silent = [
      ...Array.from({ length: 200 }, () => open('/api/v1/session/links/use', { bytes: 1024 })),
      ...(await makeTenKeys()).flatMap((headers) =>
        Array.from({ length: 40 }, () =>
          open('/api/v1/chat/estimate', { bytes: megabyte, headers }),
        ),
      ),
    ];
    await sleep(500);
    // Less than the silent clients still have: a request that waited for them would take longer.
    expect(await measureOther()).toBeLessThan(4400);
    expect(new Set(await Promise.all(silent.map(({ status }) => status)))).toEqual(new Set([408]));
  });

  it('get 413 for more than 1 KB on a route without a key', async () => {
    const large = open('/api/v1/session/links/use', { bytes: megabyte });
    expect(await large.status).toBe(413);
  });

  it('get 408 when they pause for five seconds, long before the minute of the whole body', async () => {
    const headers = toHeaders(await gateway.newCaller({ credits: 0 }));
    const startedAt = performance.now();
    // The pause begins with a piece that is large enough for the least rate.
    const text = `{"zz":"${'x'.repeat(200_000)}`;
    const paused = open('/api/v1/chat', { bytes: megabyte, headers, text });
    expect(await paused.status).toBe(408);
    expect(performance.now() - startedAt).toBeLessThan(30_000);
  });

  /** Routes that check a signature in their URL instead of a key. */
  async function signRoutes(): Promise<Route[]> {
    const { urls } = gateway.api.services;
    const signed = await signUpload(gateway, { contentType: 'image/png' }, other.key);
    const hook = urls.urlFor({ provider: 'fal', jobId: newId('job'), callIndex: 0 });
    const removeOrigin = (url: string) => url.slice(new URL(url).origin.length);
    return [
      { method: 'PUT', requestPath: removeOrigin(signed.uploadUrl), headers: signed.headers },
      { method: 'POST', requestPath: removeOrigin(hook), headers: {} },
    ];
  }

  it('get 408 on every route with a body, whether they send nothing or one byte per second', async () => {
    const poor = await gateway.newCaller({ credits: 0 });
    await gateway.database.query(`UPDATE organization SET upload_bytes = 0`);
    const withKey = (key: string, routes: readonly RequestedEndpoint[]): Route[] =>
      routes.map(({ method, requestPath }) => ({
        method,
        requestPath,
        headers: {
          ...toHeaders({ key }),
          ...(forms.has(requestPath) && { 'content-type': 'multipart/form-data; boundary=x' }),
        },
      }));
    const described = [...callerEndpoints, ...openEndpoints].filter(({ takesBody }) => takesBody);
    const posts = protocolEndpoints.filter(({ method }) => method === 'POST');
    const operators = operatorEndpoints.filter(({ takesBody }) => takesBody);
    const routes = [
      ...withKey(poor.key, [...described, ...posts]),
      ...withKey(gateway.config.ADMIN_API_KEY, operators),
      ...(await signRoutes()),
    ];
    // Two requests at the same time to the same upload URL would be a conflict.
    const statuses = await Promise.all(
      routes.flatMap(({ requestPath, method, headers }) =>
        (method === 'PUT' ? [true] : [false, true]).map(async (drips) => {
          const { client, status } = open(requestPath, {
            bytes: 900,
            method,
            headers,
            text: drips ? '{' : '',
          });
          const drip = setInterval(() => drips && client.write(' '), 1000);
          const received = await status;
          clearInterval(drip);
          client.destroy();
          return `${method} ${requestPath} ${received}`;
        }),
      ),
    );
    expect(statuses.filter((line) => !line.endsWith(' 408'))).toEqual([]);
    expect(statuses.length).toBeGreaterThan(60);
  });
});

describe('wide bodies', () => {
  it('with ten keys of one organization do not delay another organization', async () => {
    const usualMs = await measureOther();
    const text = Buffer.from(`{"messages":[${'1,'.repeat(megabyte / 2)}1]}`);
    const wide = (await makeTenKeys()).flatMap((headers) =>
      Array.from({ length: 4 }, () => {
        const sent = open('/api/v1/chat', { bytes: text.length, text, headers });
        sent.client.end();
        return sent;
      }),
    );
    expect(await measureOther()).toBeLessThan(20 * usualMs + 2000);
    const statuses = await Promise.all(wide.map(({ status }) => status));
    expect(statuses.filter((status) => ![400, 429].includes(Number(status)))).toEqual([]);
  });
});

describe('the request bytes of an organization', () => {
  const text = Buffer.from(`{"zz":"${'x'.repeat(15 * megabyte)}"`);
  /** Sends all of a body but its last byte; the client then pauses. */
  const send = (caller: TestCaller): RawRequest =>
    open('/api/v1/chat', { bytes: text.length + 1, headers: toHeaders(caller), text });

  it("are limited, with 503 when all organizations together hold too many, while another organization's small request is served", async () => {
    const callers = await Promise.all(
      Array.from({ length: 4 }, () => gateway.newCaller({ credits: 0 })),
    );
    const usualMs = await measureOther();
    const sent = callers.flatMap((caller) => Array.from({ length: 3 }, () => send(caller)));
    await sleep(1500);
    expect(await measureOther()).toBeLessThan(20 * usualMs + 2000);
    const statuses = await Promise.all(sent.map(({ status }) => status));
    for (const { client } of sent) client.destroy();
    expect(statuses.filter((status) => ![408, 429, 503, 'cut'].includes(status))).toEqual([]);
    expect(statuses).toContain(503);
    expect(await measureOther()).toBeLessThan(20 * usualMs + 2000);
  });

  it('beyond half of what the process may hold are rejected with 429 for all its keys together', async () => {
    const caller = await gateway.newCaller({ credits: 0 });
    const sent = Array.from({ length: 5 }, () => send(caller));
    const statuses = await Promise.all(sent.map(({ status }) => status));
    const paused = statuses.filter((status) => status === 408);
    const rejected = statuses.filter((status) => status === 429 || status === 'cut');
    expect(rejected.length).toBeGreaterThanOrEqual(1);
    expect(paused.length).toBeGreaterThanOrEqual(3);
    expect(paused.length + rejected.length).toBe(sent.length);
  });
});

describe('an unfinished form', () => {
  const folder = () => join(gateway.config.STORAGE_DIR, 'spool');
  const spooled = async (): Promise<string[]> => readdir(folder()).catch(() => []);
  /** Lists the files with more than a megabyte: jobs of other tests may store small results meanwhile. */
  const spooledParts = async (): Promise<string[]> => {
    const names = await spooled();
    const sizes = await Promise.all(
      names.map((name) =>
        stat(join(folder(), name)).then(
          ({ size }) => size,
          () => 0,
        ),
      ),
    );
    return names.filter((_name, index) => (sizes[index] ?? 0) > megabyte);
  };

  it('gets 408, and leaves no file in the spool', async () => {
    const poor = await gateway.newCaller({ credits: 0 });
    const boundary = 'x'.repeat(20);
    const type = { 'content-type': `multipart/form-data; boundary=${boundary}` };
    const part = `--${boundary}\r\ncontent-disposition: form-data; name="image"; filename="a.png"\r\n\r\n`;
    const unfinished = Array.from({ length: 6 }, () =>
      open('/api/v1/images/edits', {
        bytes: 20 * megabyte,
        headers: { ...toHeaders(poor), ...type },
        text: part + 'x'.repeat(2 * megabyte),
      }),
    );
    // A busy machine may reject the first form before it reads the last one.
    const seen = new Set<string>();
    await expect
      .poll(async () => {
        for (const name of await spooledParts()) seen.add(name);
        return seen.size;
      })
      .toBe(6);
    expect(await Promise.all(unfinished.map(({ status }) => status))).toEqual(
      unfinished.map(() => 408),
    );
    await expect.poll(async () => (await spooled()).filter((name) => seen.has(name))).toEqual([]);
  });

  it.each([{}, { 'idempotency-key': 'one' }])(
    'is rejected by its Content-Length if the storage quota is used up, with the headers %j',
    async (headers) => {
      const poor = await gateway.newCaller({ credits: 0 });
      await gateway.database.query(`UPDATE organization SET upload_bytes = 1e15 WHERE id = $1`, [
        poor.organizationId,
      ]);
      const type = { 'content-type': 'multipart/form-data; boundary=x' };
      const form = open('/api/v1/images/edits', {
        bytes: 20 * megabyte,
        headers: { ...toHeaders(poor), ...type, ...headers },
      });
      expect(await form.status).toBe(403);
    },
  );
});
