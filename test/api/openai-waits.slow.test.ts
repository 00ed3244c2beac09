/**
 * OpenAI's endpoints with jobs that take longer than SYNC_WAIT_MS: JSON responses begin with blanks, the other responses
 * hold their headers. The waits are short here: COMPATIBLE_WAIT_MS and COMPATIBLE_KEEPALIVE_MS are 590 and 15 seconds.
 */
import { APIError, type OpenAI } from 'openai';
import { beforeEach, describe, expect, it } from 'vitest';
import { useClients } from '../chat/chat-clients.ts';
import { catchFailure } from '../harness/failures.ts';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({
  env: { SYNC_WAIT_MS: '500', COMPATIBLE_WAIT_MS: '20000', COMPATIBLE_KEEPALIVE_MS: '300' },
});
/** A caller and a client that are new for each test; the client retries. */
const clients = useClients(gateway);
let client: OpenAI;
/** The number of requests that the client sent. */
let sent = 0;

beforeEach(() => {
  sent = 0;
  client = clients.openai.withOptions({
    maxRetries: 2,
    fetch: (url, init) => {
      // The client reads a data URL to find out what `fetch` supports.
      if (typeof url !== 'string' || url.startsWith('http')) sent += 1;
      return fetch(url, init);
    },
  });
});

/** Returns the last ledger entry of each job of the caller, oldest job first. */
async function readLastEntries(): Promise<(string | undefined)[]> {
  const jobs = await gateway.database.jobs(clients.caller.organizationId);
  const kinds = await Promise.all(jobs.map(({ id }) => gateway.database.entryKinds(id)));
  return kinds.map((each) => each.at(-1));
}

const generate = (body: object, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`${gateway.url}/v1/images/generations`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${clients.caller.key}`,
      'content-type': 'application/json',
      ...headers,
    },
    body: JSON.stringify(body),
  });

describe('a JSON response', () => {
  it('of a slow job starts with spaces, and contains the images', async () => {
    const { data } = await client.images.generate({ prompt: '[[slow:1s]] a pier' });
    expect(data?.[0]?.b64_json?.length).toBeGreaterThan(100);
    expect([sent, await readLastEntries()]).toEqual([1, ['charge']]);
    const response = await generate({ prompt: '[[slow:2s]] a pier', response_format: 'url' });
    const text = await response.text();
    expect(text).toMatch(/^ {3,}\{"created":/);
    expect(response.headers.get('x-job-id')).toMatch(/^job_/);
    expect(response.headers.get('content-type')).toContain('application/json');
  });

  it('of a job that fails late is invalid JSON, is sent once, and names the error', async () => {
    const prompt = '[[slow:1s]] [[policy]] a pier';
    await catchFailure(client.images.generate({ prompt }), SyntaxError);
    expect([sent, await readLastEntries()]).toEqual([1, ['release']]);
    const response = await generate({ prompt });
    const [line = '', body = ''] = (await response.text()).trim().split('\n');
    expect([response.status, line]).toEqual([200, expect.stringMatching(/^CONTENT_POLICY: .+/)]);
    expect(JSON.parse(body)).toMatchObject({
      error: { code: 'CONTENT_POLICY' },
      jobId: expect.stringMatching(/^job_/),
    });
  });

  it('of a job that exceeds the wait names the job', async () => {
    const response = await generate({ prompt: '[[slow:2s]] a pier' }, { prefer: 'wait=1' });
    const [line = '', body = '{}'] = (await response.text()).trim().split('\n');
    expect(line).toMatch(/^JOB_NOT_DONE: /);
    const { jobId }: { jobId: string } = JSON.parse(body);
    await gateway.untilDone(jobId, clients.caller.key);
    expect(await readLastEntries()).toEqual(['charge']);
  });
});

describe('a speech response', () => {
  const speak = (input: string, { audio } = client) =>
    audio.speech.create({ model: 'eleven_multilingual_v2', voice: 'rachel', input });

  it('of a slow job is the audio file', async () => {
    const response = await speak('[[slow:1s]] Welcome to the harbour.');
    const bytes = Buffer.from(await response.arrayBuffer());
    expect([bytes.length, sent]).toEqual([Number(response.headers.get('content-length')), 1]);
    expect(await readLastEntries()).toEqual(['charge']);
  });

  it('of a job that fails late has the status of its error', async () => {
    const failure = await catchFailure(speak('[[slow:1s]] [[policy]] Welcome.'), APIError);
    expect(failure).toMatchObject({ status: 400, code: 'CONTENT_POLICY' });
  });

  it('that waits when its API stops says not to send the request again', async () => {
    const there = client.withOptions({ baseURL: `${await gateway.startSecondApi()}/v1` });
    const waiting = catchFailure(speak('[[slow:6s]] Welcome.', there), APIError);
    await expect.poll(readLastEntries).toEqual(['reserve']);
    await gateway.endSpawned();
    expect(await waiting).toMatchObject({ status: 409, code: 'JOB_NOT_DONE' });
    expect(sent).toBe(1);
    const [job] = await gateway.database.jobs(clients.caller.organizationId);
    await gateway.untilDone(job?.id ?? '', clients.caller.key);
  });
});
