/** The sandbox keeps acknowledged requests through `kill -9`. */
import { once } from 'node:events';
import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startReceiver, startSandbox, stopSandbox, type SandboxProcess } from './harness.ts';
import { until } from '../harness/until.ts';

const endpoint = 'fal-ai/nano-banana';

async function restart(sandbox: SandboxProcess): Promise<SandboxProcess> {
  const { port } = new URL(sandbox.url);
  await sandbox.kill('SIGKILL');
  return startSandbox({ SANDBOX_DATA_DIR: sandbox.dataDir, SANDBOX_PORT: port });
}

describe('the sandbox', () => {
  it('loses no accepted request in a kill -9: it completes after the restart and sends its webhook', async () => {
    const receiver = await startReceiver();
    let sandbox = await startSandbox();
    const jwks = (await sandbox.call('/fal/.well-known/jwks.json')).body;
    const submitted = await sandbox.submit(
      endpoint,
      { prompt: 'x [[slow:500ms]]', seed: 1 },
      receiver.url,
    );
    sandbox = await restart(sandbox);
    const { result } = await sandbox.finish(submitted);
    expect(result.body.images).toHaveLength(1);
    const hook = await until(() => receiver.received[0]);
    expect(hook.body.request_id).toBe(submitted.body.request_id);
    expect((await sandbox.call('/_sandbox/submits')).body).toHaveLength(1);
    expect((await sandbox.call('/fal/.well-known/jwks.json')).body).toEqual(jwks);
    await receiver.close();
    await stopSandbox(sandbox);
  });

  it('keeps results after a kill -9, generates their files again and sends the webhooks that were due', async () => {
    const receiver = await startReceiver([500]);
    let sandbox = await startSandbox();
    const done = await sandbox.submit(endpoint, { prompt: 'kept' });
    const before = (await sandbox.finish(done)).result.body;
    const bytes = await (await fetch(before.images[0].url)).bytes();
    const canceled = await sandbox.submit(endpoint, { prompt: 'x [[slow:30s]]' });
    await sandbox.call(canceled.body.cancel_url, { method: 'PUT' });
    await sandbox.submit(endpoint, { prompt: 'owed' }, receiver.url);
    await until(() => receiver.received[0]);
    sandbox = await restart(sandbox);
    expect((await sandbox.finish(done)).result.body).toEqual(before);
    expect(await (await fetch(before.images[0].url)).bytes()).toEqual(bytes);
    expect((await sandbox.finish(canceled)).result.status).toBe(499);
    await until(() => receiver.received[1]);
    await receiver.close();
    await stopSandbox(sandbox);
  });

  it('logs each request before it acknowledges it, and ignores an incomplete last line', async () => {
    let sandbox = await startSandbox();
    const submitted = await sandbox.submit(endpoint, { prompt: 'x [[slow:30s]]' });
    const log = join(sandbox.dataDir, 'fal-requests.jsonl');
    expect(await readFile(log, 'utf8')).toContain(submitted.body.request_id);
    await sandbox.kill('SIGKILL');
    await appendFile(log, '{"type":"accepted","request":{"requestId":"half');
    sandbox = await restart(sandbox);
    const next = await sandbox.submit(endpoint, { prompt: 'y' });
    expect((await sandbox.finish(next)).result.status).toBe(200);
    sandbox = await restart(sandbox);
    expect((await sandbox.call('/_sandbox/submits')).body).toHaveLength(2);
    await stopSandbox(sandbox);
  });

  it('ends with its parent and on SIGTERM with exit code 0', async () => {
    const first = await startSandbox();
    first.submit(endpoint, { prompt: 'x [[hang-submit]]' }).catch(() => undefined);
    await until(async () => (await first.call<unknown[]>('/_sandbox/submits')).body[0]);
    await first.kill('SIGTERM');
    expect(first.child.exitCode).toBe(0);
    const second = await startSandbox();
    const exited = once(second.child, 'exit');
    second.child.disconnect();
    expect(await exited).toEqual([0, null]);
    await stopSandbox(first);
    await stopSandbox(second);
  });
});
