/** Each fault of the sandbox causes exactly its documented failure. */
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  isGenuine,
  startReceiver,
  startSandbox,
  stopSandbox,
  type Answer,
  type SandboxProcess,
} from './harness.ts';
import { until } from '../harness/until.ts';

const endpoint = 'fal-ai/nano-banana';
let sandbox: SandboxProcess;
let nextPrompt = 0;

beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(async () => stopSandbox(sandbox));

/** A prompt of its own, so that counted faults start at zero. */
function prompted(markers: string): { prompt: string } {
  nextPrompt += 1;
  return { prompt: `case ${nextPrompt}. ${markers}` };
}

async function accepted({ prompt }: { prompt: string }): Promise<{ requestId: string }[]> {
  const path = `/_sandbox/submits?match=${encodeURIComponent(prompt)}`;
  return (await sandbox.call<{ requestId: string }[]>(path)).body;
}

async function finish(markers: string, more: object = {}) {
  return sandbox.finish(await sandbox.submit(endpoint, { ...prompted(markers), ...more }));
}

async function firstFile(markers: string): Promise<{ file: Response; promised: number }> {
  const { result } = await finish(markers);
  const [image] = result.body.images;
  return { file: await fetch(image.url), promised: image.file_size };
}

async function hooks(markers: string) {
  const receiver = await startReceiver();
  const submittedAt = Date.now();
  const submitted = await sandbox.submit(endpoint, prompted(markers), receiver.url);
  const answeredAt = Date.now();
  await sandbox.finish(submitted);
  await new Promise((resolve) => setTimeout(resolve, 150));
  return { receiver, submittedAt, answeredAt };
}

const post = async (rule: object) =>
  sandbox.call('/_sandbox/faults', { method: 'POST', body: JSON.stringify(rule) });

const draw = async (prompt: string) => {
  const submitted = await sandbox.submit(endpoint, { prompt, seed: 7 });
  const { result } = await sandbox.finish(submitted);
  return sharp(await (await fetch(result.body.images[0].url)).bytes())
    .raw()
    .toBuffer();
};

describe('faults of the submit', () => {
  it('submit:503x2 refuses twice, then accepts', async () => {
    const input = prompted('[[submit:503x2]]');
    const answers: Answer[] = [];
    for (let attempt = 0; attempt < 3; attempt += 1)
      answers.push(await sandbox.submit(endpoint, input));
    expect(answers.map(({ status }) => status)).toEqual([503, 503, 200]);
    expect(answers[0]?.headers.get('x-fal-error-type')).toBe('runner_scheduling_failure');
    expect(await accepted(input)).toHaveLength(1);
  });

  it('submit:429 carries Retry-After as seconds or as a date', async () => {
    const seconds = await sandbox.submit(endpoint, prompted('[[submit:429x1;retry-after=2]]'));
    expect(seconds.status).toBe(429);
    expect(seconds.headers.get('retry-after')).toBe('2');
    const date = await sandbox.submit(endpoint, prompted('[[submit:429x1;retry-after=date:2]]'));
    const delayMs = Date.parse(date.headers.get('retry-after') ?? '') - Date.now();
    expect(delayMs).toBeGreaterThan(-1);
    expect(delayMs).toBeLessThanOrEqual(2000);
  });

  it('reset-before-accept destroys the socket and accepts nothing', async () => {
    const input = prompted('[[reset-before-accept]]');
    await expect(sandbox.submit(endpoint, input)).rejects.toThrow('fetch failed');
    expect(await accepted(input)).toEqual([]);
  });

  it('reset-after-accept destroys the socket but accepts and finishes', async () => {
    const receiver = await startReceiver();
    const input = prompted('[[reset-after-accept]]');
    await expect(sandbox.submit(endpoint, input, receiver.url)).rejects.toThrow('fetch failed');
    expect(await accepted(input)).toHaveLength(1);
    expect(await until(() => receiver.received[0])).toMatchObject({ body: { status: 'OK' } });
    await receiver.close();
  });

  it('hang-submit accepts and never answers', async () => {
    const input = prompted('[[hang-submit]]');
    const init = { method: 'POST', body: JSON.stringify(input), signal: AbortSignal.timeout(300) };
    const submitted = sandbox.call(`/fal/queue/${endpoint}`, init);
    await expect(submitted).rejects.toThrow(/timeout/);
    expect(await accepted(input)).toHaveLength(1);
  });

  it('malformed-submit accepts and answers half a JSON', async () => {
    const input = prompted('[[malformed-submit]]');
    await expect(sandbox.submit(endpoint, input)).rejects.toThrow(SyntaxError);
    expect(await accepted(input)).toHaveLength(1);
  });
});

describe('faults of the generation', () => {
  it('fail:422 is a model error, fail:500 a retryable one', async () => {
    const refused = (await finish('[[fail:422]]')).result;
    expect(refused).toMatchObject({ status: 422, body: { detail: [{ type: 'value_error' }] } });
    expect(refused.headers.get('x-fal-retryable')).toBe('false');
    const broken = (await finish('[[fail:500]]')).result;
    expect(broken.status).toBe(500);
    expect(broken.headers.get('x-fal-retryable')).toBe('true');
  });

  it('policy is a 422 of that type', async () => {
    expect((await finish('[[policy]]')).result).toMatchObject({
      status: 422,
      body: { detail: [{ type: 'content_policy_violation' }] },
    });
  });

  it('fail-result:504 is a platform error with its header', async () => {
    const { status, result } = await finish('[[fail-result:504]]');
    expect(status).toMatchObject({ status: 200, body: { error_type: 'request_timeout' } });
    expect(result).toMatchObject({ status: 504, body: { error_type: 'request_timeout' } });
    expect(result.headers.get('x-fal-error-type')).toBe('request_timeout');
  });

  it('slow delays the generation', async () => {
    const startedAt = Date.now();
    await finish('[[slow:400ms]]');
    expect(Date.now() - startedAt).toBeGreaterThanOrEqual(390);
  });

  it('partial:2 generates two images of four', async () => {
    expect((await finish('[[partial:2]]', { num_images: 4 })).result.body.images).toHaveLength(2);
  });

  it('ignore-cancel acknowledges a cancel and finishes anyway', async () => {
    const submitted = await sandbox.submit(endpoint, prompted('[[ignore-cancel]] [[slow:200ms]]'));
    const cancel = await sandbox.call(submitted.body.cancel_url, { method: 'PUT' });
    expect(cancel.status).toBe(202);
    expect((await sandbox.finish(submitted)).result.status).toBe(200);
  });
});

describe('faults of polls', () => {
  it('status:500x3 fails three polls', async () => {
    const submitted = await sandbox.submit(endpoint, prompted('[[status:500x3]]'));
    const codes: number[] = [];
    for (let poll = 0; poll < 4; poll += 1) {
      codes.push((await sandbox.call(submitted.body.status_url)).status);
    }
    expect(codes.slice(0, 3)).toEqual([500, 500, 500]);
    expect(codes[3]).toBeLessThan(300);
  });

  it('result:502x1 fails one fetch', async () => {
    const submitted = await sandbox.submit(endpoint, prompted('[[result:502x1]]'));
    const { result } = await sandbox.finish(submitted);
    expect(result.status).toBe(502);
    expect(result.headers.get('x-fal-error-type')).toBeNull();
    expect((await sandbox.call(submitted.body.response_url)).status).toBe(200);
  });

  it('malformed-result is not JSON', async () => {
    const submitted = await sandbox.submit(endpoint, prompted('[[malformed-result]]'));
    await expect(sandbox.finish(submitted)).rejects.toThrow(SyntaxError);
  });
});

describe('faults of webhooks', () => {
  it('no-webhook sends no webhook', async () => {
    const { receiver } = await hooks('[[no-webhook]]');
    expect(receiver.received).toEqual([]);
    await receiver.close();
  });

  it('dup-webhook:5 sends the webhook five times', async () => {
    const { receiver } = await hooks('[[dup-webhook:5]]');
    await until(() => receiver.received[4]);
    expect(receiver.received).toHaveLength(5);
    await receiver.close();
  });

  it('early-webhook sends the webhook before the submit has a response', async () => {
    const { receiver, answeredAt } = await hooks('[[early-webhook]]');
    expect(receiver.received).toHaveLength(1);
    expect(receiver.received[0]?.atMs).toBeLessThanOrEqual(answeredAt);
    await receiver.close();
  });

  it('early-webhook responds to the submit although the receiver rejects the webhook', async () => {
    const receiver = await startReceiver([404, 404, 404, 404]);
    const submitted = await sandbox.submit(endpoint, prompted('[[early-webhook]]'), receiver.url);
    expect(submitted.status).toBe(200);
    expect(receiver.received.length).toBeGreaterThan(0);
    await receiver.close();
  });

  it('bad-signature changes only the signature', async () => {
    const { receiver } = await hooks('[[bad-signature]]');
    const [hook] = receiver.received;
    expect(hook?.body.status).toBe('OK');
    expect(hook && (await isGenuine(sandbox, hook))).toBe(false);
    await receiver.close();
  });

  it('late-webhook delays the webhook', async () => {
    const { receiver, submittedAt } = await hooks('[[late-webhook:500ms]]');
    expect(receiver.received).toEqual([]);
    const hook = await until(() => receiver.received[0]);
    expect(hook.atMs - submittedAt).toBeGreaterThanOrEqual(500);
    await receiver.close();
  });
});

describe('faults of media', () => {
  it('dead-url is a 404', async () => {
    expect((await firstFile('[[dead-url]]')).file.status).toBe(404);
  });

  it('private-url points into a private network', async () => {
    const { result } = await finish('[[private-url]]');
    expect(result.body.images[0].url).toMatch(/^http:\/\/169\.254\.169\.254\//);
  });

  it('truncated-media breaks the connection, or ends normally at half of the bytes', async () => {
    const cut = await firstFile('[[truncated-media]]');
    expect(cut.file.headers.get('content-length')).toBe(String(cut.promised));
    await expect(cut.file.bytes()).rejects.toThrow('terminated');
    const silent = await firstFile('[[truncated-media:silent]]');
    expect((await silent.file.bytes()).length).toBe(Math.floor(silent.promised / 2));
  });

  it('empty-media has no bytes', async () => {
    const { file } = await firstFile('[[empty-media]]');
    expect(file.status).toBe(200);
    expect((await file.bytes()).length).toBe(0);
  });

  it('wrong-type-media is HTML with the content type of an image', async () => {
    const { file } = await firstFile('[[wrong-type-media]]');
    expect(file.headers.get('content-type')).toBe('image/png');
    expect(await file.text()).toContain('<!doctype html>');
  });
});

describe('fault rules of the admin endpoint', () => {
  it('apply to matching requests, as often as requested, until deleted', async () => {
    await post({ match: 'topaz', faults: '[[submit:503]]', times: 1 });
    const input = { image_url: 'data:,x' };
    expect((await sandbox.submit('fal-ai/topaz/upscale/image', input)).status).toBe(503);
    expect((await sandbox.submit('fal-ai/topaz/upscale/image', input)).status).toBe(200);
    await post({ match: 'marker-less', faults: 'fail:422 no-webhook' });
    const submit = async () => sandbox.submit(endpoint, { prompt: 'marker-less' });
    expect((await sandbox.finish(await submit())).result.status).toBe(422);
    await sandbox.call('/_sandbox/faults', { method: 'DELETE' });
    expect((await sandbox.finish(await submit())).result.status).toBe(200);
  });

  it('are refused if the fault is unknown; unknown markers in prompts are ignored', async () => {
    expect((await post({ faults: '[[explode]]' })).status).toBe(422);
    expect((await post({ faults: 'submit:503', surprise: true })).status).toBe(422);
    expect((await finish('[[profile_id_1]] [[explode]]')).result.status).toBe(200);
  });
});

describe('fault markers', () => {
  it('leave no trace in the image', async () => {
    expect(await draw('a bird [[slow:10ms]]')).toEqual(await draw('a bird'));
    expect(await draw('a bird')).not.toEqual(await draw('a cat'));
  });
});
