/** The programs of docs/usage-feed.md, run unchanged: into a database, Stripe and OpenMeter. */
import { fork, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { findGoProgram } from '../../dev/stack/tools.ts';
import { newFolder } from '../harness/folders.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';

const gateway = useGateway({ settled: 'last' });
const directory = newFolder();
const programs = { database: 'node:sqlite', stripe: 'STRIPE_API_URL', openmeter: 'OPENMETER_URL' };
type Program = keyof typeof programs;

beforeAll(async () => {
  const page = await readFile(
    fileURLToPath(new URL('../../docs/usage-feed.md', import.meta.url)),
    'utf8',
  );
  const blocks = [...page.matchAll(/```js\n(.+?)```/gs)].map(([, block = '']) => block);
  expect(blocks).toHaveLength(3);
  for (const [name, mark] of Object.entries(programs)) {
    const block = blocks.find((candidate) => candidate.includes(mark)) ?? '';
    await writeFile(
      join(directory, `${name}.mjs`),
      block.replaceAll('http://127.0.0.1:4000', gateway.url),
    );
  }
});

/** Starts a program of the page in a process of its own. */
function start(name: Program, { key }: TestCaller, env: Record<string, string> = {}): ChildProcess {
  const child = fork(join(directory, `${name}.mjs`), {
    cwd: directory,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    env: { PATH: process.env['PATH'], KEY: key, NODE_NO_WARNINGS: '1', ...env },
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}
const kill = async (child: ChildProcess): Promise<void> => {
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
};
const paint = async (caller: TestCaller): Promise<void> => {
  const body = { prompt: 'a bay', metadata: { customer: 'cus_1' } };
  const made = await gateway.call('/api/v1/studio/image/generate', { key: caller.key, body });
  expect(made).toMatchObject({ status: 200, body: { credits: { used: 3.9 } } });
};
const charges = (caller: TestCaller) =>
  gateway.database.query<{ number: number; credits: number }>(
    `SELECT sequence::float8 AS number, -posted_change::float8 / 1e6 AS credits FROM ledger_entry
     WHERE organization_id = $1 AND kind <> 'reserve' ORDER BY sequence`,
    [caller.organizationId],
  );

it('a receiver that is killed again and again counts each event once', async () => {
  const caller = await gateway.newCaller();
  const file = join(directory, 'usage.db');
  const read = (): { number: number; credits: number }[] => {
    const db = new DatabaseSync(file);
    try {
      db.exec('PRAGMA busy_timeout = 60000');
      const rows = db.prepare('SELECT number, credits FROM event ORDER BY number').all();
      return rows as { number: number; credits: number }[];
    } catch {
      return [];
    } finally {
      db.close();
    }
  };
  for (let round = 0; round < 4; round += 1) {
    const receiver = start('database', caller, { DB: file });
    const before = read().length;
    await paint(caller);
    // A later round is killed while it reads, or before.
    if (round % 2 === 0) await until(() => read().length > before);
    await kill(receiver);
  }
  const last = start('database', caller, { DB: file });
  const expected = await charges(caller);
  await until(() => read().length >= expected.length);
  await kill(last);
  expect(read()).toEqual(
    expected.map(({ number, credits }) => ({ number, credits: number === 1 ? -credits : credits })),
  );
  const db = new DatabaseSync(file);
  expect(
    db.prepare('SELECT count(DISTINCT id) AS ids, count(*) AS events FROM event').get(),
  ).toEqual({ ids: expected.length, events: expected.length });
  db.close();
});

/** Starts a server that records the bodies of requests and answers by another one, if there is one. */
async function record(forward: string | null): Promise<{ url: string; bodies: string[] }> {
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    void forwardTo(request, response);
  }).listen(0, '127.0.0.1');
  async function forwardTo(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    bodies.push(body);
    const { authorization = '', 'content-type': type = '' } = request.headers;
    const headers = { authorization, 'content-type': type };
    const sent = { method: 'POST', body, headers };
    const answer = forward === null ? null : await fetch(`${forward}${request.url}`, sent);
    response.statusCode = answer?.status ?? 204;
    response.end(await answer?.text());
  }
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies };
}
const runToEnd = async (child: ChildProcess): Promise<void> =>
  expect((await once(child, 'exit'))[0]).toBe(0);

it('Stripe accepts the meter events, whose identifiers are those of the entries', async () => {
  const path = await findGoProgram(
    { path: 'github.com/stripe/stripe-mock', version: 'v0.197.0', program: 'stripe-mock' },
    (line) => console.log(line),
  );
  const mock = spawn(path, ['-http-addr', '127.0.0.1:0'], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void mock.kill('SIGKILL'));
  let output = '';
  mock.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [, address] = await until(() => /Listening for HTTP at address: (\S+)/.exec(output));
  const recorded = await record(`http://${address}`);
  const caller = await gateway.newCaller();
  await paint(caller);
  const env = {
    STRIPE_API_URL: recorded.url,
    STRIPE_API_KEY: 'sk_test_123',
    POSITION: join(directory, 'stripe'),
  };
  await runToEnd(start('stripe', caller, env));
  await paint(caller);
  await runToEnd(start('stripe', caller, env));
  const sent = recorded.bodies.map((body) => Object.fromEntries(new URLSearchParams(body)));
  expect(sent).toMatchObject(
    [3, 5].map((number) => ({
      identifier: `${caller.organizationId}:${number}`,
      'payload[value]': '3900000',
      'payload[stripe_customer_id]': 'cus_1',
    })),
  );
}, 600_000);

it('OpenMeter receives each event as a CloudEvent', async () => {
  const recorded = await record(null);
  const caller = await gateway.newCaller();
  await paint(caller);
  const env = { OPENMETER_URL: recorded.url, POSITION: join(directory, 'openmeter') };
  await runToEnd(start('openmeter', caller, env));
  await runToEnd(start('openmeter', caller, env));
  expect(recorded.bodies.map((body) => JSON.parse(body) as object)).toEqual([
    [
      {
        specversion: '1.0',
        id: `${caller.organizationId}:3`,
        source: 'studio-gateway',
        type: 'gateway.usage',
        subject: 'cus_1',
        time: expect.stringMatching(/Z$/),
        data: {
          credits: 3.9,
          model: 'nano-banana',
          type: 'imageGenerate',
          quantity: 1,
          unit: 'image',
        },
      },
    ],
  ]);
});
