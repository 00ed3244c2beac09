/** The queue protocol on the wire, webhooks and their signatures. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  isGenuine,
  startReceiver,
  startSandbox,
  stopSandbox,
  type SandboxProcess,
} from './harness.ts';
import { until } from '../harness/until.ts';

let sandbox: SandboxProcess;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(async () => stopSandbox(sandbox));

describe('the queue', () => {
  it('requires a key on every route', async () => {
    const headers = { Authorization: 'Key nonsense' };
    const submitted = await sandbox.submit('fal-ai/nano-banana', { prompt: 'x' });
    for (const [method, path] of [
      ['POST', `${sandbox.queue}/fal-ai/nano-banana`],
      ['GET', submitted.body.status_url],
      ['GET', submitted.body.response_url],
      ['PUT', submitted.body.cancel_url],
    ] as const) {
      const answer = await sandbox.call(path, { method, headers });
      expect(answer.status, `${method} ${path}`).toBe(401);
      expect(typeof answer.body.detail).toBe('string');
    }
  });

  it('returns URLs on the root app, 202 until the request is done, then 200', async () => {
    const submitted = await sandbox.submit('openai/gpt-image-2.5/flare/text-to-image', {
      // A fifth of it in the queue: time enough to see that state on a busy machine.
      prompt: 'x [[slow:1500ms]]',
    });
    const { request_id: id, response_url: url } = submitted.body;
    expect(id).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
    expect(url).toBe(`${sandbox.queue}/openai/gpt-image-2.5/requests/${id}`);
    expect(submitted.body).toMatchObject({ status: 'IN_QUEUE', gateway_request_id: id });
    const queued = await sandbox.call(submitted.body.status_url);
    expect(queued).toMatchObject({ status: 202, body: { status: 'IN_QUEUE', queue_position: 0 } });
    expect(await sandbox.call(url)).toMatchObject({
      status: 400,
      body: { detail: 'Request is still in progress' },
    });
    const states = new Set<string>();
    await until(async () => {
      const { body } = await sandbox.call(submitted.body.status_url);
      states.add(body.status);
      return body.status === 'COMPLETED' ? body : undefined;
    });
    expect([...states].slice(-2)).toEqual(['IN_PROGRESS', 'COMPLETED']);
    const done = await sandbox.call(submitted.body.status_url);
    expect(done.status).toBe(200);
    expect(done.body.metrics.inference_time).toBeGreaterThan(0.1);
    const foreign = url.replace('openai/gpt-image-2.5', 'fal-ai/nano-banana');
    expect((await sandbox.call(foreign)).status).toBe(404);
  });

  it('returns 404 for unknown endpoints and 422 details for invalid bodies', async () => {
    expect((await sandbox.submit('fal-ai/no-such-model', {})).status).toBe(404);
    const { status, result } = await sandbox.finish(
      await sandbox.submit('fal-ai/nano-banana', { aspect_ratio: '7:1', extra: 1 }),
    );
    expect(status.body).toMatchObject({ status: 'COMPLETED', error: 'Invalid status code: 422' });
    expect(result.status).toBe(422);
    expect(result.headers.get('x-fal-retryable')).toBe('false');
    expect(result.body.detail).toMatchObject([
      { loc: ['body', 'prompt'], type: 'missing' },
      { loc: ['body', 'aspect_ratio'], type: 'literal_error', input: '7:1' },
    ]);
  });

  it('cancels once: 202, then 400, and 404 for the key of another account', async () => {
    const submitted = await sandbox.submit('fal-ai/nano-banana', { prompt: 'x [[slow:30s]]' });
    const put = { method: 'PUT' };
    const first = await sandbox.call(submitted.body.cancel_url, put);
    expect(first).toMatchObject({ status: 202, body: { status: 'CANCELLATION_REQUESTED' } });
    const second = await sandbox.call(submitted.body.cancel_url, put);
    expect(second).toMatchObject({ status: 400, body: { status: 'ALREADY_COMPLETED' } });
    const result = await sandbox.call(submitted.body.response_url);
    expect(result).toMatchObject({ status: 499, body: { error_type: 'client_cancelled' } });
    const stranger = submitted.body.cancel_url.replace(/requests\/.{8}/, 'requests/00000000');
    expect(await sandbox.call(stranger, put)).toMatchObject({
      status: 404,
      body: { status: 'NOT_FOUND' },
    });
  });

  it('serves files with type and length, also to HEAD, without a key', async () => {
    const { result } = await sandbox.finish(
      await sandbox.submit('fal-ai/nano-banana', { prompt: 'x', output_format: 'webp' }),
    );
    const [image] = result.body.images;
    for (const method of ['GET', 'HEAD']) {
      const response = await fetch(image.url, { method });
      expect(response.status).toBe(200);
      expect(response.headers.get('content-type')).toBe('image/webp');
      expect(response.headers.get('content-length')).toBe(String(image.file_size));
      expect((await response.bytes()).length).toBe(method === 'GET' ? image.file_size : 0);
    }
    expect((await fetch(image.url.replace('.webp', '.png'))).status).toBe(404);
  });

  it('counts and lists the requests that it accepted', async () => {
    const accepted = async () =>
      (await sandbox.call<{ submitsAccepted: number }>('/_sandbox/counters')).body.submitsAccepted;
    const before = await accepted();
    await sandbox.submit(
      'fal-ai/nano-banana',
      { prompt: 'witness-1' },
      'http://127.0.0.1:9/jobs/job_77/0',
    );
    const { body: byJob } = await sandbox.call('/_sandbox/submits?jobId=job_77');
    const { body: byMatch } = await sandbox.call('/_sandbox/submits?match=witness-1');
    expect(byJob).toEqual(byMatch);
    expect(byJob).toMatchObject([
      { endpoint: 'fal-ai/nano-banana', body: { prompt: 'witness-1' } },
    ]);
    expect((await sandbox.call('/_sandbox/submits?jobId=job_78')).body).toEqual([]);
    expect((await accepted()) - before).toBe(1);
  });
});

describe('webhooks', () => {
  it('have the signature of the published key, and contain the result', async () => {
    const receiver = await startReceiver();
    const submitted = await sandbox.submit('fal-ai/nano-banana', { prompt: 'x' }, receiver.url);
    const hook = await until(() => receiver.received[0]);
    const { result } = await sandbox.finish(submitted);
    expect(hook.body).toEqual({
      request_id: submitted.body.request_id,
      gateway_request_id: submitted.body.request_id,
      status: 'OK',
      payload: result.body,
    });
    expect(await isGenuine(sandbox, hook)).toBe(true);
    expect(await isGenuine(sandbox, { ...hook, rawBody: `${hook.rawBody} ` })).toBe(false);
    const age = Date.now() / 1000 - Number(hook.headers['x-fal-webhook-timestamp']);
    expect(age).toBeLessThan(5);
    await receiver.close();
  });

  it('report failures', async () => {
    const receiver = await startReceiver();
    await sandbox.submit('fal-ai/nano-banana', { prompt: 'x [[policy]]' }, receiver.url);
    const hook = await until(() => receiver.received[0]);
    expect(hook.body).toMatchObject({
      status: 'ERROR',
      error: 'Invalid status code: 422',
      payload: { detail: [{ type: 'content_policy_violation' }] },
    });
    await receiver.close();
  });

  it('are retried until the receiver responds with 2xx', async () => {
    const receiver = await startReceiver([500, 302]);
    await sandbox.submit('fal-ai/nano-banana', { prompt: 'x' }, receiver.url);
    await until(() => receiver.received[2]);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(receiver.received).toHaveLength(3);
    await receiver.close();
  });

  it('can be sent again, forged, outdated or to another address', async () => {
    const receiver = await startReceiver();
    const submitted = await sandbox.submit('fal-ai/nano-banana', { prompt: 'x' });
    await sandbox.finish(submitted);
    const path = `/_sandbox/webhooks/${submitted.body.request_id}`;
    const resend = async (options: object) => {
      const body = JSON.stringify({ url: receiver.url, ...options });
      const answer = await sandbox.call(path, { method: 'POST', body });
      expect(answer).toMatchObject({ status: 200, body: { status: 200 } });
      const hook = receiver.received.at(-1);
      if (!hook) throw new Error('nothing arrived');
      return hook;
    };
    expect(await isGenuine(sandbox, await resend({}))).toBe(true);
    expect(await isGenuine(sandbox, await resend({ signature: 'bad' }))).toBe(false);
    expect(await isGenuine(sandbox, await resend({ signature: 'other-key' }))).toBe(false);
    const old = await resend({ timestampOffsetSeconds: -3600 });
    expect(await isGenuine(sandbox, old)).toBe(true);
    expect(Number(old.headers['x-fal-webhook-timestamp'])).toBeLessThan(Date.now() / 1000 - 3500);
    expect((await sandbox.call('/_sandbox/webhooks/none', { method: 'POST' })).status).toBe(404);
    await receiver.close();
  });
});
