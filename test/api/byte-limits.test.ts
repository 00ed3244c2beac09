/**
 * Limits on the bytes that one organization and one process hold: files of unfinished forms, and
 * chat text kept for an idempotent replay.
 */
import { request, type ClientRequest } from 'node:http';
import { describe, expect, it } from 'vitest';
import { useGateway, type TestCaller } from '../harness/gateway.ts';

const megabyte = 1024 * 1024;

const gateway = useGateway({
  env: { SPOOL_BYTES_MAX: String(600 * megabyte) },
  settled: 'last',
});

describe('files of unfinished forms', () => {
  interface Form {
    client: ClientRequest;
    /** Resolves when all bytes have been accepted by the connection. */
    written: Promise<void>;
    status: Promise<number | 'cut'>;
  }

  /** Sends 24 MiB of a file, then a little every second, so that it is never too slow. */
  function send({ key }: TestCaller): Form {
    const boundary = 'x'.repeat(20);
    const client = request(`${gateway.url}/api/v1/images/edits`, {
      method: 'POST',
      agent: false,
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': `multipart/form-data; boundary=${boundary}`,
      },
    });
    const status = new Promise<number | 'cut'>((resolve) => {
      client.on('response', (response) => {
        response.resume();
        resolve(response.statusCode ?? 'cut');
      });
      client.on('error', () => resolve('cut'));
    });
    client.write(
      `--${boundary}\r\ncontent-disposition: form-data; name="image"; filename="a.png"\r\n\r\n`,
    );
    const written = new Promise<void>((resolve) => {
      client.write(Buffer.alloc(24 * megabyte, 'x'), () => resolve());
    });
    const drip = setInterval(() => client.write(Buffer.alloc(8192, 'x')), 1000);
    client.on('close', () => clearInterval(drip));
    const rejected = status.then((received) => {
      throw new Error(`The form was rejected with ${received}.`);
    });
    const accepted = Promise.race([written, rejected]);
    // A rejected form is seen by its status too.
    accepted.catch(() => {});
    return { client, status, written: accepted };
  }

  it('get 429 beyond the limit of their organization until a form ends, while other organizations are served', async () => {
    const [greedy, other] = [
      await gateway.newCaller({ credits: 0 }),
      await gateway.newCaller({ credits: 0 }),
    ];
    const held = Array.from({ length: 12 }, () => send(greedy));
    await Promise.all(held.map(({ written }) => written));
    expect(await send(greedy).status).toBe(429);
    const served = send(other);
    await served.written;
    for (const { client } of [...held, served]) client.destroy();
    await Promise.all(held.map(({ status }) => status));
    const later = send(greedy);
    await later.written;
    later.client.destroy();
  });
});

describe('chat text kept for an idempotent replay', () => {
  /** Sends a keyed stream; `text` resolves at its end. */
  async function stream({ key }: TestCaller, name: string, content: string) {
    const answer = await fetch(`${gateway.url}/api/v1/chat`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'idempotency-key': name,
      },
      body: JSON.stringify({
        model: 'gpt-4o',
        stream: true,
        messages: [{ role: 'user', content }],
      }),
    });
    return answer;
  }
  const statusOfReplay = async (caller: TestCaller, name: string, content: string) => {
    const replay = await stream(caller, name, content);
    await replay.body?.cancel();
    return replay.status;
  };

  it('is limited per organization, and a stream beyond the limit releases its bytes at once', async () => {
    const [greedy, other] = [
      await gateway.newCaller({ credits: 1000 }),
      await gateway.newCaller({ credits: 1000 }),
    ];
    // 40 MB, then a pause of three seconds before the rest.
    const long = '[[words:2000;size=20000]] [[slow-chunks:3ms]] long';
    const short = '[[words:50;size=1000]] short';
    const running = await stream(greedy, 'long', long);
    const reader = running.body?.getReader();
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
    expect(await (await stream(other, 'one', short)).text()).toContain('[DONE]');
    expect(await statusOfReplay(other, 'one', short)).toBe(200);
    await readUntil(35 * megabyte);
    expect(isDone).toBe(false);
    expect(await (await stream(greedy, 'two', short)).text()).toContain('[DONE]');
    expect(await statusOfReplay(greedy, 'two', short)).toBe(200);
    await readUntil(Infinity);
    await expect.poll(() => statusOfReplay(greedy, 'long', long), { timeout: 30_000 }).toBe(409);
  });
});
