/**
 * Limits on the bytes that one organization and one process hold: files of unfinished forms, and
 * chat text kept for an idempotent replay.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { openRequest } from '../harness/raw-requests.ts';
import { putFile, signUpload } from '../harness/uploads.ts';
import { untilHolds } from '../harness/until.ts';

const megabyte = 1024 * 1024;

const gateway = useGateway({
  unchecked: { SPOOL_BYTES_MAX: 8 * megabyte, BODY_BYTES_MAX: 64 * megabyte },
  settled: 'last',
});

describe('files of unfinished forms', () => {
  /** Sends 1.2 MB of a file, of which an organization may hold 4 MiB; `end` finishes the form. */
  function send({ key }: TestCaller) {
    const boundary = 'x'.repeat(20);
    const { client, status } = openRequest(`${gateway.url}/api/v1/images/edits`, {
      authorization: `Bearer ${key}`,
      'content-type': `multipart/form-data; boundary=${boundary}`,
    });
    client.write(
      `--${boundary}\r\ncontent-disposition: form-data; name="image"; filename="a.png"\r\n\r\n`,
    );
    client.write(Buffer.alloc(1.2e6, 'x'));
    return { client, status, end: () => client.end(`\r\n--${boundary}--\r\n`) };
  }
  const sendWhole = (caller: TestCaller) => {
    const { status, end } = send(caller);
    end();
    return status;
  };

  it('get 429 beyond the limit of their organization until a form ends, while other organizations are served', async () => {
    const [caller, other] = [await gateway.newCaller(), await gateway.newCaller()];
    // One form after the other, because two that arrive together can both be rejected.
    const forms: ReturnType<typeof send>[] = [];
    await untilHolds(async () => {
      const form = send(caller);
      forms.push(form);
      expect(await Promise.race([form.status, sleep(500)])).toBe(429);
    });
    expect(await sendWhole(caller)).toBe(429);
    const signed = await signUpload(gateway, {}, caller.key);
    expect((await putFile(signed, Buffer.alloc(1.2e6))).status).toBe(429);
    // The whole form is read, and then rejected because its file is no picture.
    expect(await sendWhole(other)).toBe(415);
    for (const { client } of forms) client.destroy();
    await untilHolds(async () => expect(await sendWhole(caller)).toBe(415));
  });

  it('of uploads with browser tokens take nothing from the API keys of their organization', async () => {
    const caller = await gateway.newCaller();
    const made = await gateway.call<{ data: { token: string } }>('/api/v1/end-users/ann/tokens', {
      key: caller.key,
      body: {},
    });
    const uploads: ReturnType<typeof openRequest>[] = [];
    await untilHolds(async () => {
      const { uploadUrl, headers } = await signUpload(gateway, {}, made.body.data.token);
      const upload = openRequest(uploadUrl, { ...headers, 'content-length': 2e6 }, 'PUT');
      uploads.push(upload);
      upload.client.write(Buffer.alloc(1.2e6, 'x'));
      expect(await Promise.race([upload.status, sleep(500)])).toBe(429);
    });
    expect(await sendWhole(caller)).toBe(415);
    for (const { client } of uploads) client.destroy();
  });
});

describe('chat text kept for an idempotent replay', () => {
  const stream = ({ key }: TestCaller, idempotencyKey: string, content: string) =>
    fetch(`${gateway.url}/api/v1/chat`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'idempotency-key': idempotencyKey,
      },
      body: JSON.stringify({
        model: 'gpt-4o',
        stream: true,
        messages: [{ role: 'user', content }],
      }),
    });
  const readReplayStatus = async (caller: TestCaller, idempotencyKey: string, content: string) => {
    const { body, status } = await stream(caller, idempotencyKey, content);
    await body?.cancel();
    return status;
  };
  const short = '[[words:50;size=1000]] short';
  const expectKept = async (caller: TestCaller, idempotencyKey: string) => {
    expect(await (await stream(caller, idempotencyKey, short)).text()).toContain('[DONE]');
    expect(await readReplayStatus(caller, idempotencyKey, short)).toBe(200);
  };

  it('is limited per organization, and a stream beyond the limit releases its bytes at once', async () => {
    const caller = await gateway.newCaller({ credits: 1000 });
    const other = await gateway.newCaller({ credits: 1000 });
    // 37 MB, then a pause of three seconds before the rest.
    const long = '[[words:1850;size=20000]] [[slow-chunks:3ms]] long';
    const response = await stream(caller, 'long', long);
    const reader = response.body?.getReader();
    let bytes = 0;
    let isDone = false;
    async function readUntil(total: number): Promise<void> {
      while (!isDone && bytes < total) {
        const piece = await reader?.read();
        bytes += piece?.value?.length ?? 0;
        isDone = piece?.done ?? true;
      }
    }
    await readUntil(30 * megabyte);
    // The long stream holds almost all of the organization's bytes, and none of another's.
    await expectKept(other, 'one');
    await readUntil(34 * megabyte);
    expect(isDone).toBe(false);
    await expectKept(caller, 'two');
    await readUntil(Infinity);
    await expect.poll(() => readReplayStatus(caller, 'long', long)).toBe(409);
  });
});
