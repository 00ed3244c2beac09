/** The TypeScript client, packed and installed, with a gateway. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Webhook as Signature } from 'standardwebhooks';
import { beforeAll, describe, expect, it } from 'vitest';
import type * as Library from '../../clients/typescript/index.ts';
import { root, run } from '../../dev/clients/tools.ts';
import { catchFailure } from '../harness/failures.ts';
import { useGateway } from '../harness/gateway.ts';
import { download, readFilm } from '../harness/media.ts';
import { until } from '../harness/until.ts';
import { makeForm } from '../harness/uploads.ts';
import { installTypescriptClient, useInstallation } from './installed.ts';

const gateway = useGateway({ settled: 'last' });
let client: Library.StudioGateway;
/** The package as its users import it. */
let library: typeof Library;
const installation = useInstallation('client-typescript', installTypescriptClient);

beforeAll(async () => {
  const main = 'node_modules/studio-gateway-client/dist/index.js';
  library = await import(pathToFileURL(join(installation.place, main)).href);
  client = newClient();
});

function newClient(options: Partial<Library.GatewayOptions> = {}): Library.StudioGateway {
  const known = { apiKey: gateway.caller.key, baseUrl: gateway.url };
  return new library.StudioGateway({ ...known, ...options });
}

/** Returns a client that loses the responses to its first requests of a method. */
function forgetfulClient(method: string, count: number, apiKey = gateway.caller.key) {
  let lost = 0;
  /** Methods and Authorization headers of all requests. */
  const sent: [string | undefined, string | null][] = [];
  const forgetful = newClient({
    apiKey,
    fetch: async (url, init) => {
      sent.push([init.method, new Headers(init.headers).get('authorization')]);
      const answer = await fetch(url, init);
      if (init.method !== method || lost === count) return answer;
      lost += 1;
      throw new TypeError('the connection broke');
    },
  });
  return { forgetful, sent, lost: () => lost };
}

/** Returns the error of a call. */
const thrown = (call: Promise<unknown>) =>
  catchFailure<Library.StudioError>(call, library.StudioError);

/** Collects the items of an iteration, and its error. */
async function collect<T>(items: AsyncIterable<T>): Promise<{ got: T[]; error: unknown }> {
  const got: T[] = [];
  try {
    for await (const item of items) got.push(item);
    return { got, error: null };
  } catch (error) {
    return { got, error };
  }
}

const say = (content: string) => [{ role: 'user' as const, content }];

describe('a job', () => {
  it('runs until it has a result', async () => {
    const { images, model } = await client.run('image/generate', { prompt: 'a lighthouse' });
    expect(model).toBe('nano-banana');
    expect((await download(images[0]?.url ?? '')).length).toBeGreaterThan(1000);
  });

  it('has its price before it runs, and a result without an envelope', async () => {
    const { credits } = await client.estimate('image/generate', { prompt: 'a tree', numImages: 2 });
    expect(credits).toBe(7.8);
    const plan = await client.run('music/plan', { prompt: 'a calm song', music_length_ms: 20_000 });
    expect(plan.sections.length).toBeGreaterThan(0);
  });

  it('reports its states until it is done', async () => {
    const film = await client.submit('video/generate', { prompt: '[[slow:3s]] waves' });
    const { got, error } = await collect(client.events(film));
    expect(error).toBeNull();
    expect(got.length).toBeGreaterThan(1);
    expect(got[0]).toMatchObject({ jobId: film.jobId, done: false });
    expect(got.at(-1)).toMatchObject({ done: true, status: 'completed' });
    const { result } = await client.wait(film);
    const facts = await readFilm(await download(result.url));
    expect(facts.durationSeconds).toBeGreaterThan(1);
  });

  it('is followed over any number of lost streams that each reported a state', async () => {
    const signals: (AbortSignal | null | undefined)[] = [];
    const patient = newClient({
      retries: 1,
      timeoutMs: 20,
      fetch: (_url, { signal }) => {
        signals.push(signal);
        const bytes = Buffer.from(`data: {"done":${signals.length > 4}}\n\n`);
        const body = new ReadableStream({
          start: (controller) => controller.enqueue(bytes),
          pull: (controller) => void setTimeout(() => controller.error(new Error('lost')), 50),
        });
        const headers = { 'content-type': 'text/event-stream' };
        return Promise.resolve(new Response(body, { headers }));
      },
    });
    const { got, error } = await collect(patient.events({ jobId: 'job_1' }));
    expect([got.length, error]).toEqual([5, null]);
    expect(signals.map((signal) => signal?.aborted)).toEqual(Array(5).fill(false));
  });

  it('that fails is thrown with its code and id, and is not charged', async () => {
    const error = await thrown(client.run('image/generate', { prompt: '[[fail:422]] a tree' }));
    expect(error).toMatchObject({ code: 'PROVIDER_REJECTED_INPUT', status: null });
    const job = await client.job({ jobId: error.jobId ?? '' });
    expect(job).toMatchObject({ status: 'failed', billing: { state: 'released', charged: 0 } });
  });

  it('can be canceled', async () => {
    const prompt = '[[slow:900s]] [[no-webhook]] a slow tree';
    const job = await client.submit('image/generate', { prompt });
    const canceled = await client.cancel(job);
    expect(canceled.jobId).toBe(job.jobId);
    expect(await thrown(client.wait(job))).toMatchObject({ code: 'CANCELED', jobId: job.jobId });
  });

  it('continues after the program stops waiting', async () => {
    const job = await client.submit('image/generate', { prompt: '[[slow:3s]] a late tree' });
    const timeout = await thrown(client.wait(job, { timeoutMs: 300 }));
    expect(timeout).toMatchObject({ code: 'TIMEOUT', jobId: job.jobId });
    const leaving = new AbortController();
    const left = expect(client.wait(job, { signal: leaving.signal })).rejects.toThrow('enough');
    leaving.abort(new Error('enough'));
    await left;
    expect(await client.wait(job)).toMatchObject({ status: 'completed', result: { images: [{}] } });
  });

  it('that takes longer than the timeout of one request is awaited', async () => {
    const hasty = newClient({ timeoutMs: 8000, retries: 0 });
    const { images } = await hasty.run('image/generate', { prompt: '[[slow:10s]] a slow tree' });
    expect(images).toHaveLength(1);
  });

  it('is named in the error if its poll has no response', async () => {
    const deaf = newClient({
      retries: 0,
      fetch: (url, init) =>
        init.method === 'GET' ? Promise.reject(new TypeError('broken')) : fetch(url, init),
    });
    const error = await thrown(deaf.run('image/generate', { prompt: 'a tree' }));
    const jobId = expect.stringMatching(/^job_/);
    expect(error).toMatchObject({ code: 'CONNECTION_FAILED', status: null, jobId });
    await client.wait({ jobId: error.jobId ?? '' });
  });
});

describe('a bulk job', () => {
  const lamp = (name: string) => ({
    id: name,
    use: 'image/generate' as const,
    body: { prompt: `a ${name} lamp` },
  });

  it('is started once after lost responses, and yields typed results', async () => {
    const { key } = await gateway.newCaller({ credits: 100 });
    const { forgetful, lost } = forgetfulClient('POST', 2, key);
    async function* readItems() {
      yield lamp('red');
      yield await Promise.resolve({ ...lamp('bad'), body: { prompt: 'a [[fail:422]] lamp' } });
      yield lamp('blue');
    }
    const results = forgetful.bulk.run(readItems(), { metadata: { shop: 'x' } });
    const { got, error } = await collect(results);
    expect([error, lost()]).toEqual([null, 2]);
    got.sort((one, other) => one.index - other.index);
    expect(got.map(({ id, status, error: failure }) => [id, status, failure?.code])).toEqual([
      ['red', 'completed', undefined],
      ['bad', 'failed', 'PROVIDER_REJECTED_INPUT'],
      ['blue', 'completed', undefined],
    ]);
    const image = got[0]?.status === 'completed' ? got[0].data?.images[0]?.url : '';
    expect((await download(image ?? '')).length).toBeGreaterThan(1000);
    const { data } = await forgetful.api.GET('/api/v1/studio/bulk');
    expect(data?.data).toMatchObject([{ metadata: { shop: 'x' }, counts: { total: 3 } }]);
  });

  it('that stops throws its reason after the results, and can be resumed', async () => {
    const { key } = await gateway.newCaller({ credits: 100 });
    const own = newClient({ apiKey: key });
    const items = ['red', 'green', 'blue'].map(lamp);
    expect(await own.bulk.estimate(items)).toMatchObject({ credits: 11.7, items: 3 });
    const { got, error } = await collect(own.bulk.run(items, { maxCredits: 8 }));
    expect(got.map(({ id }) => id).toSorted()).toEqual(['green', 'red']);
    expect(error).toMatchObject({ code: 'MAX_CREDITS', body: { status: 'stopped' } });
    const { data } = await own.api.GET('/api/v1/studio/bulk');
    const bulkId = data?.data[0]?.bulkId ?? '';
    await own.bulk.resume({ bulkId }, { maxCredits: 12 });
    expect(await own.bulk.wait({ bulkId })).toMatchObject({ status: 'completed' });
    expect(await thrown(own.bulk.retry({ bulkId: 'bulk_1' }))).toMatchObject({
      code: 'BULK_NOT_FOUND',
    });
  });

  it('has all results also if their stream breaks', async () => {
    let broken = 0;
    let received = 0;
    const patient = newClient({
      fetch: async (url, init) => {
        const answer = await fetch(url, init);
        if (!url.includes('/results?')) return answer;
        received += (await answer.clone().text()).split('\n').filter(Boolean).length;
        if (broken === 2 || received === 0) return answer;
        broken += 1;
        const [first = ''] = (await answer.text()).split('\n');
        const bytes = Buffer.from(`${first}\n{"id":`);
        const body = new ReadableStream({
          start: (controller) => controller.enqueue(bytes),
          pull: (controller) => controller.error(new Error('lost')),
        });
        return new Response(body, answer);
      },
    });
    const { got, error } = await collect(patient.bulk.run(['red', 'blue'].map(lamp)));
    expect([error, broken, got.map(({ id }) => id).toSorted()]).toEqual([null, 2, ['blue', 'red']]);
    // Only the results after the last one are read again.
    expect(received).toBeLessThanOrEqual(3);
    const [first, second] = got;
    const bulkId = (await client.api.GET('/api/v1/studio/bulk')).data?.data[0]?.bulkId ?? '';
    const after = await collect(client.bulk.results({ bulkId }, { cursor: first?.cursor }));
    expect(after.got.map(({ id }) => id)).toEqual([second?.id]);
  });

  it('yields a result while other items run', async () => {
    const late = { ...lamp('late'), body: { prompt: '[[slow:900s]] a late lamp' } };
    const results = client.bulk.run([late, lamp('early')]);
    const { value } = await results.next();
    const { data } = await client.api.GET('/api/v1/studio/bulk');
    expect([value, data?.data[0]]).toMatchObject([{ id: 'early' }, { done: false }]);
    await until(async () => (await gateway.sandbox.submits({ match: 'a late lamp' }))[0]);
    await gateway.sandbox.clearFaults();
    expect(await collect(results)).toMatchObject({ got: [{ id: 'late' }], error: null });
  });

  it('a pipeline that failed in part is resumed', async () => {
    const step = { id: 'art', use: 'image/generate' as const, body: { prompt: 'a lighthouse' } };
    const steps = [step, { ...step, id: 'two', body: { prompt: '[[policy]] a lighthouse' } }];
    const first = await client.submit('pipelines', { steps });
    expect((await client.wait(first)).result).toMatchObject({ successful: 1, failed: 1 });
    const second = await client.resume(first, { bodies: { two: { prompt: 'a lighthouse' } } });
    expect((await client.wait(second)).result).toMatchObject({ successful: 2 });
  });

  it('a step of a pipeline is approved', async () => {
    const art = { id: 'art', use: 'image/generate' as const, body: { prompt: 'a lighthouse' } };
    const imageUrl = { $from: 'art', output: 'chosen' as const };
    const cut = { id: 'cut', use: 'image/remove-background' as const, body: { imageUrl } };
    const ticket = await client.submit('pipelines', { steps: [art, { ...cut, approve: true }] });
    const decided: string[] = [];
    for await (const { awaiting } of client.events(ticket)) {
      for (const { step, takes } of awaiting.filter((one) => !decided.includes(one.step))) {
        expect(takes).toMatchObject([{ step: 'art', outputs: [{ output: 0 }] }]);
        await client.decide(ticket, step, { decision: 'approve', outputs: { art: 0 } });
        decided.push(step);
      }
    }
    expect(decided).toEqual(['cut']);
    expect((await client.job(ticket)).result).toMatchObject({ successful: 2 });
  });

  it('has items that are approved together', async () => {
    const body = { prompt: 'a lighthouse' };
    const art = { id: 'art', use: 'image/generate' as const, approve: true as const, body };
    const item = { use: 'pipelines' as const, body: { steps: [art] } };
    const bulk = await client.bulk.start([{ id: 'choice', ...item }, item]);
    await until(async () => (await client.bulk.get(bulk)).counts.awaiting === 2);
    const approve = { decision: 'approve' as const, body: { prompt: 'a calm lighthouse' } };
    const decided = await client.bulk.decide(bulk, { items: 'all', step: 'art', ...approve });
    expect(decided).toMatchObject({ decided: 2, remaining: 0, items: [{ id: 'choice' }, {}] });
    expect(await client.bulk.wait(bulk)).toMatchObject({ counts: { completed: 2 } });
  });

  it('can be paused and canceled', async () => {
    const items = ['red', 'blue'].map((id) => ({ ...lamp(id), body: { prompt: '[[slow:900s]]' } }));
    const bulk = await client.bulk.start(items, { concurrency: 1 });
    expect(await client.bulk.pause(bulk)).toMatchObject({ status: 'paused', stopReason: 'PAUSED' });
    const timeout = await thrown(client.bulk.wait(bulk, { timeoutMs: 300 }));
    expect(timeout).toMatchObject({ code: 'TIMEOUT', body: { bulkId: bulk.bulkId } });
    await client.bulk.cancel(bulk, { items: 'all' });
    expect(await client.bulk.wait(bulk)).toMatchObject({ counts: { canceled: 2 } });
    const { bulkId, status, done } = await client.bulk.get(bulk);
    expect([bulkId, status, done]).toEqual([bulk.bulkId, 'canceled', true]);
  });
});

describe('a list', () => {
  it('contains all jobs, usage records and files that match the filter', async () => {
    const caller = await gateway.newCaller({ credits: 100 });
    const own = newClient({ apiKey: caller.key, baseUrl: `${gateway.url}/api/v1/` });
    const inputs = ['one', 'two', 'three'].map((prompt) => ({ prompt, metadata: { n: prompt } }));
    for (const input of inputs) await own.run('image/generate', input);
    const { got: jobs } = await collect(own.jobs({ type: 'imageGenerate' }));
    expect(jobs.map(({ metadata }) => metadata['n'])).toEqual(['three', 'two', 'one']);
    const { got: some } = await collect(own.jobs({ metadata: { n: 'two' } }));
    expect(some).toHaveLength(1);
    const { got: records } = await collect(own.usage({ status: 'charged' }));
    expect(records.map(({ jobId }) => jobId)).toEqual(jobs.map(({ jobId }) => jobId));
    expect((await collect(own.requests({ status: 'completed' }))).got).toEqual([]);
    const { got: files } = await collect(own.files({ kind: 'artifact' }));
    expect(files).toHaveLength(3);
  });
});

describe('a repeated request', () => {
  it('with the same key returns the same job, also after it is done', async () => {
    const input = { prompt: 'one of a kind' };
    const first = await client.submit('image/generate', input, { idempotencyKey: 'mine' });
    await client.wait(first);
    const second = await client.submit('image/generate', input, { idempotencyKey: 'mine' });
    expect(second).toEqual(first);
    const params = { path: first };
    await client.api.DELETE('/api/v1/studio/jobs/{jobId}/media', { params });
    expect(await thrown(client.wait(first))).toMatchObject({ code: 'MEDIA_DELETED', ...first });
  });

  it('after a lost response is charged once', async () => {
    const { key } = await gateway.newCaller({ credits: 100 });
    const { forgetful, lost } = forgetfulClient('POST', 2, key);
    await forgetful.run('image/generate', { prompt: 'a lost answer' });
    expect(lost()).toBe(2);
    const { data } = await forgetful.api.GET('/api/v1/usage');
    expect(data?.usage).toHaveLength(1);
    expect(await gateway.sandbox.submits({ match: 'a lost answer' })).toHaveLength(1);
  });

  it('waits for the Retry-After of the response', async () => {
    const caller = await gateway.newCaller({ credits: 1 });
    let busy = 1;
    const patient = newClient({
      apiKey: caller.key,
      fetch: (url, init) => {
        busy -= 1;
        if (busy < 0) return fetch(url, init);
        const body = { error: 'SERVICE_UNAVAILABLE', message: 'Try again.' };
        const headers = { 'Retry-After': '1' };
        return Promise.resolve(Response.json(body, { status: 503, headers }));
      },
    });
    const startedAt = performance.now();
    expect((await patient.api.GET('/api/v1/models')).data?.data.length).toBeGreaterThan(100);
    expect(performance.now() - startedAt).toBeGreaterThan(990);
  });

  it('is not sent again if the Retry-After is too long', async () => {
    const caller = await gateway.newCaller({ credits: 100, windowCredits: 5 });
    const small = newClient({ apiKey: caller.key });
    await small.run('image/generate', { prompt: 'the first tree' });
    const error = await thrown(small.run('image/generate', { prompt: 'the second tree' }));
    expect(error).toMatchObject({ status: 429, code: 'WINDOW_EXHAUSTED' });
    expect(error.body).toHaveProperty('resetAt');
  });
});

describe('a chat', () => {
  it('receives a whole answer', async () => {
    const answer = await client.chat({ model: 'gpt-4o', messages: say('hello') });
    expect(answer.content).not.toBe('');
    expect(answer.creditsConsumed).toBeGreaterThan(0);
  });

  it('receives a streamed answer', async () => {
    const { got, error } = await collect(
      client.chatStream({ model: 'gpt-4o', messages: say('[[words:20]] go') }),
    );
    expect(error).toBeNull();
    const text = got.map((event) => (event.type === 'delta' ? event.delta : '')).join('');
    expect(text.trim().split(/\s+/)).toHaveLength(20);
    expect(got.at(-1)).toMatchObject({ type: 'done', finishReason: 'stop' });
  });

  it('that breaks off throws after the text that arrived', async () => {
    const { got, error } = await collect(
      client.chatStream({ model: 'gpt-4o', messages: say('[[words:20]] [[stream-error:5]]') }),
    );
    expect(got.length).toBeGreaterThan(0);
    expect(error).toMatchObject({ code: 'PROVIDER_ERROR', requestId: expect.any(String) });
  });

  it('throws the reason of its aborted signal', async () => {
    const leaving = new AbortController();
    const request = { model: 'gpt-4o', messages: say('[[words:200]] [[slow-chunks:100ms]] go') };
    const events = client.chatStream(request, { signal: leaving.signal });
    await events.next();
    leaving.abort(new Error('enough'));
    const { error } = await collect(events);
    expect(error).toMatchObject({ message: 'enough' });
  });
});

describe('an upload', () => {
  it('can be transcribed', async () => {
    const voiceover = { title: 'a talk', text: 'Hello there.' };
    const speech = await client.run('voiceover/generate', voiceover);
    const file = new File([await download(speech.url)], 'talk.mp3', { type: 'audio/mpeg' });
    const { fileId, url } = await client.upload(file);
    expect(await download(url)).toEqual(Buffer.from(await file.arrayBuffer()));
    const { text } = await client.run('audio/transcribe', { fileId });
    expect(text).not.toBe('');
    const body = { model: 'scribe_v2', file: '' };
    const bodySerializer = (): FormData => makeForm({ ...body, file });
    const request = { body, bodySerializer };
    const { data } = await client.api.POST('/api/v1/audio/transcriptions', request);
    expect(data).toEqual({ text });
  });

  it('after a lost response is stored once', async () => {
    const { forgetful, sent, lost } = forgetfulClient('PUT', 1);
    const speech = await client.run('sfx/generate', { prompt: 'a bell', durationSeconds: 1 });
    const bytes = await download(speech.url);
    const { url } = await forgetful.upload(new Blob([bytes], { type: 'audio/mpeg' }));
    expect(lost()).toBe(1);
    expect(await download(url)).toEqual(bytes);
    // The store may belong to another company, so it never receives the API key.
    const keys = sent.filter(([method]) => method === 'PUT').map(([, key]) => key);
    expect(keys).toEqual([null, null]);
  });
});

describe('an error', () => {
  it('has status, code, request id and the invalid fields', async () => {
    const error = await thrown(client.submit('image/generate', { prompt: 'x' }));
    expect(error).toMatchObject({
      status: 400,
      code: 'INVALID_REQUEST',
      requestId: expect.stringMatching(/./),
      jobId: null,
      details: [{ path: 'prompt', message: expect.any(String) }],
    });
  });
});

describe('a webhook', () => {
  it('is verified, and a forged one is rejected', async () => {
    const webhookUrl = gateway.receiver.at('/client');
    await client.run('image/generate', { prompt: 'a told tree', webhookUrl });
    const [sent] = await gateway.receiver.untilReceived('/client');
    const { data } = await client.api.GET('/api/v1/webhooks/secret');
    const secret = data?.secret ?? '';
    const body = sent?.text ?? '';
    const headers = sent?.headers ?? {};
    const event = await library.verifyWebhook({ body, headers, secret });
    expect(event).toMatchObject({ type: 'studio.job.completed', data: { status: 'completed' } });
    const upperCase = Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]);
    for (const other of [new Headers(headers), Object.fromEntries(upperCase)])
      await library.verifyWebhook({ body, headers: other, secret });

    // The timestamp is signed too, so only its distance from now is wrong.
    const shift = (seconds: number) => {
      const date = new Date(Date.now() + seconds * 1000);
      const signature = new Signature(secret).sign(headers['webhook-id'] ?? '', date, body);
      const timestamp = String(Math.floor(date.getTime() / 1000));
      return { ...headers, 'webhook-timestamp': timestamp, 'webhook-signature': signature };
    };
    await library.verifyWebhook({ body, headers: shift(100), secret });

    const wrong = [
      { body, headers: shift(400), secret },
      { body, headers: shift(-400), secret },
      { body: `${body} `, headers, secret },
      { body, headers, secret: 'whsec_c29tZXRoaW5nIGVsc2U=' },
      { body, headers: { ...headers, 'webhook-timestamp': '1' }, secret },
      { body, headers: { ...headers, 'webhook-id': 'msg_other' }, secret },
      { body, headers: { ...headers, 'webhook-signature': 'v1,not base64!' }, secret },
      { body, headers: {}, secret },
    ];
    for (const each of wrong) await expect(library.verifyWebhook(each)).rejects.toThrow(/webhook/);
  });
});

describe('the package', () => {
  it('has types for a strict program', async () => {
    const program = `
      import { StudioGateway, type Result } from 'studio-gateway-client';
      const client = new StudioGateway({ apiKey: 'k', baseUrl: 'http://127.0.0.1' });
      export const made: Promise<Result<'image/generate'>> = client.run('image/generate', { prompt: 'x' });
      export const text: Promise<string> = client.run('audio/transcribe', { fileId: 'x' }).then((r) => r.text);
      export const bulk = client.bulk.run([{ use: 'audio/transcribe', body: { fileId: 'x' } }]);
      for await (const r of bulk) if (r.status === 'completed') console.log(r.data?.text);
      // No such capability, no such model, no prompt.
      void client.run('image/paint', { prompt: 'x' });
      void client.run('image/generate', { prompt: 'x', model: 'crayon' });
      void client.run('image/generate', {});
      void client.bulk.start([{ use: 'image/generate', body: {} }]);
    `;
    const file = join(installation.place, 'program.ts');
    await writeFile(file, program);
    const flags = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2023'];
    const options = {
      cwd: installation.place,
      env: { ...process.env, PATH: `${root}node_modules/.bin:${process.env['PATH']}` },
    };
    const { stdout } = await run('tsc', ['--ignoreConfig', ...flags, file], options).catch(
      (error) => error,
    );
    const found = [...stdout.matchAll(/program\.ts\((\d+),.*error (TS\d+)/g)];
    expect(found.map(([, line]) => line)).toEqual(['9', '10', '11', '12']);
    expect(stdout.match(/error TS/g)).toHaveLength(4);
  });
});
