/** The Python client, packed and installed, with a gateway; program.py is a user’s program. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Webhook as Signature } from 'standardwebhooks';
import { beforeAll, describe, expect, it } from 'vitest';
import { installPythonCommands, root, run } from '../../dev/clients/tools.ts';
import { useGateway } from '../harness/gateway.ts';
import { download } from '../harness/media.ts';
import { installMs, installPythonClient, useInstallation } from './installed.ts';

let python = '';
/** Output of the program. */
let report: Record<string, any>; // oxlint-disable-line no-explicit-any -- the tests check its content
const gateway = useGateway({ settled: 'last' });
const installation = useInstallation('client-python', async (place) => {
  python = await installPythonClient(place);
});

beforeAll(async () => {
  const program = join(root, 'test', 'clients', 'program.py');
  const args = [program, gateway.url, gateway.caller.key, gateway.receiver.at('/python')];
  const { stdout } = await run(python, args, { cwd: installation.place });
  report = JSON.parse(stdout);
}, installMs);

describe('a program with the Python client', () => {
  it('runs jobs and receives their results', async () => {
    expect((await download(report['image'])).length).toBeGreaterThan(1000);
    expect(report['estimate']).toBe(3.9);
    expect(report['plan'].sections.length).toBeGreaterThan(0);
    expect(report['text']).toMatch(/\w/);
    expect(report).toMatchObject({ listed: true, stored: 'completed', requests: 'chat' });
    expect(report['usageRecords']).toBeGreaterThan(5);
  });

  it('uploads files by path, open files and streams', () => {
    expect(report).toMatchObject({
      opened: true,
      piped: true,
      files: ['upload', 'upload', 'upload'],
    });
  });

  it('finds its key and address in the environment', () => {
    expect(report['noKey']).toBe('api_key is required: pass it, or set STUDIO_API_KEY.');
    expect(report['fromEnvironment']).toMatch(/charged|reserved|released/);
  });

  it('follows a video job until it is done', () => {
    expect(report['film'].length).toBeGreaterThan(1);
    expect(report['film'].at(-1)).toBe('completed');
    expect(report).toMatchObject({ streams: 5, states: 5 });
  });

  it('chats, whole and streamed', () => {
    expect(report['chat'].trim().split(/\s+/)).toHaveLength(20);
    const text = report['stream'].map(({ delta = '' }) => delta).join('');
    expect(text.trim().split(/\s+/)).toHaveLength(20);
    expect(report['stream'].at(-1)).toMatchObject({ type: 'done', finishReason: 'stop' });
    expect(report['brokenStream']).toMatchObject({ code: 'PROVIDER_ERROR' });
    expect(report['separators']).toEqual(['a\u2028b\u0085c']);
  });

  it('receives errors with code, status and request id', () => {
    const jobId = expect.stringMatching(/^job_/);
    expect(report).toMatchObject({
      failed: { code: 'PROVIDER_REJECTED_INPUT', status: null, jobId },
      rejected: { code: 'INVALID_REQUEST', status: 400, details: [{ path: 'prompt' }] },
      late: { code: 'TIMEOUT', jobId },
      canceled: { code: 'CANCELED', jobId },
      deleted: { code: 'MEDIA_DELETED', jobId },
      wrongKey: { code: 'Unauthorized', status: 401 },
      nobody: { code: 'CONNECTION_FAILED', status: null },
      silent: { code: 'TIMEOUT', status: null },
    });
    expect(report['rejected'].requestId).toMatch(/\w/);
  });

  it('is charged once, however often it repeats a request', async () => {
    expect(report).toMatchObject({ replayed: true, lost: 2, usage: true });
    expect(await gateway.sandbox.submits({ match: 'a lost python answer' })).toHaveLength(1);
    const charged = await gateway.database.query(
      `SELECT id FROM job WHERE request->>'prompt' = 'a lost python answer'`,
    );
    expect(charged).toHaveLength(1);
  });

  it('runs bulk jobs, and has the results of items before the end of others', () => {
    expect(report).toMatchObject({
      bulkEstimate: 15.6,
      bulkStopped: { code: 'MAX_CREDITS' },
      bulkPaused: 'PAUSED',
      bulkResumed: 2,
      bulkLate: { code: 'TIMEOUT' },
      bulkCanceled: 2,
      bulkStates: ['canceled', 2, true],
      bulkSkipped: ['items.1.body.prompt'],
      bulkUnknown: { code: 'BULK_NOT_FOUND', status: 404 },
    });
    expect(report['bulkEnd'].code).toBe('CANCELED');
    expect(report['bulk'].at(-1)).toEqual(['slow', 'canceled', false]);
    expect(report['bulk'].slice(0, 3).toSorted()).toEqual([
      ['bad', 'failed', false],
      ['blue', 'completed', true],
      ['red', 'completed', true],
    ]);
  });

  it('rejects a step of a pipeline', () => {
    expect(report['unapproved']).toBe('APPROVAL_REJECTED');
  });

  it('rejects an item of a bulk job', () => {
    expect(report['itemsDecided']).toEqual([1, 'choice', 'completed']);
  });

  it('runs a pipeline, and resumes it from a step', () => {
    expect(report).toMatchObject({
      pipeline: ['completed', 'completed'],
      resumed: [true, true],
    });
  });

  it('does the same asynchronously', () => {
    expect(report['async']).toMatchObject({
      images: 2,
      bulk: ['completed', 'completed'],
      words: 20,
      file: expect.stringMatching(/^file_/),
      code: 'PROVIDER_REJECTED_INPUT',
    });
    expect(report['async'].states.at(-1)).toBe('completed');
  });

  it('verifies webhooks, and rejects forged ones', async () => {
    const [sent] = await gateway.receiver.untilReceived('/python');
    const { body } = await gateway.call<{ secret: string }>('/api/v1/webhooks/secret');
    const right = { body: sent?.text, headers: sent?.headers, secret: body.secret };
    // The timestamp is signed too, so only its distance from now is wrong.
    const shift = (seconds: number) => {
      const date = new Date(Date.now() + seconds * 1000);
      const id = sent?.headers['webhook-id'] ?? '';
      const timestamp = String(Math.floor(date.getTime() / 1000));
      const signature = new Signature(body.secret).sign(id, date, sent?.text ?? '');
      const signed = { 'webhook-timestamp': timestamp, 'webhook-signature': signature };
      return { ...right, headers: { ...sent?.headers, ...signed } };
    };
    const given = [
      right,
      shift(100),
      shift(400),
      shift(-400),
      { ...right, body: `${sent?.text} ` },
      { ...right, secret: 'whsec_c29tZXRoaW5nIGVsc2U=' },
      { ...right, headers: { ...sent?.headers, 'webhook-timestamp': '1' } },
      { ...right, headers: { ...sent?.headers, 'webhook-signature': 'v1,not base64!' } },
      { ...right, headers: {} },
    ];
    const program = [
      'import json, sys',
      'from studio_gateway import verify_webhook',
      'for given in json.loads(sys.argv[1]):',
      '    try: print(verify_webhook(given["body"], given["headers"], given["secret"])["type"])',
      '    except ValueError as error: print(error)',
    ].join('\n');
    const { stdout } = await run(python, ['-c', program, JSON.stringify(given)]);
    const [verified, slightlyEarly, ...rejected] = stdout.trim().split('\n');
    expect([verified, slightlyEarly]).toEqual(['studio.job.completed', 'studio.job.completed']);
    expect(rejected).toHaveLength(7);
    for (const each of rejected) expect(each).toMatch(/webhook/);
  });
});

describe('the Python package', () => {
  const check = async (...args: string[]): Promise<string> => {
    const mypy = join(await installPythonCommands(), 'mypy');
    const { stdout } = await run(mypy, ['--strict', ...args], { cwd: installation.place }).catch(
      (error) => error,
    );
    return stdout;
  };
  const packageFolder = join(root, 'clients', 'python', 'src', 'studio_gateway');

  it('has types that mypy accepts', async () => {
    expect(await check(packageFolder)).toContain('Success');
  });

  it('has types that reveal the errors of a program', async () => {
    const program = `from studio_gateway import StudioGateway
from studio_gateway.schemas import ChatRequest, ImageGenerateItem, ImageGenerateResult

client = StudioGateway(api_key="k", base_url="http://127.0.0.1")
made: ImageGenerateResult = client.run("image/generate", {"prompt": "x"})
url: str = client.wait(client.submit("video/generate", {"prompt": "x"}))["result"]["url"]
said: ChatRequest = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "x"}]}
for event in client.chat_stream(said):
    text: str = event["delta"] if event["type"] == "delta" else event["id"]
items: list[ImageGenerateItem] = [{"use": "image/generate", "body": {"prompt": "x"}}]
for result in client.bulk.run(items, {"maxCredits": 5}):
    kind: str = result["data"]["images"][0]["contentType"] if result["data"] else result["status"]
client.resume(client.submit("pipelines", {"steps": []}), {"from": "a"})
client.run("image/paint", {"prompt": "x"})
client.submit("image/generate", {"prompt": "x", "model": "crayon"})
client.estimate("image/generate", {})
client.wait("job_1")
client.bulk.run([{"use": "image/generate", "body": {"prompt": "x", "model": "crayon"}}])
client.bulk.run(items, {"maxcredits": 5})
client.bulk.wait("bulk_1")
client.resume(client.submit("image/generate", {"prompt": "x"}))
`;
    const file = join(installation.place, 'typed.py');
    await writeFile(file, program);
    const found = await check('--python-executable', python, file);
    const lines = [...found.matchAll(/typed\.py:(\d+): error/g)].map(([, line]) => Number(line));
    expect([...new Set(lines)], found).toEqual([14, 15, 16, 17, 18, 19, 20, 21]);
  });
});
