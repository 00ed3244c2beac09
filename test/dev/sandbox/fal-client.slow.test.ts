/** The vendor’s own client works with the sandbox. */
import { ApiError, createFalClient, ValidationError } from '@fal-ai/client';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { catchFailure } from '../../harness/failures.ts';
import { useSandbox } from '../../harness/sandbox.ts';
import { until } from '../../harness/until.ts';

const sandbox = useSandbox();
let fal: ReturnType<typeof createFalClient>;
const clientWith = (credentials: string) =>
  createFalClient({
    credentials,
    requestMiddleware: async (request) => ({
      ...request,
      url: request.url.replace('https://queue.fal.run', `${sandbox.url}/fal/queue`),
    }),
  });
beforeAll(() => {
  fal = clientWith(sandbox.falKey);
});

async function decode(url: string) {
  return sharp(await (await fetch(url)).bytes()).metadata();
}

describe('@fal-ai/client against the sandbox', () => {
  it('submits, polls and fetches a result', async () => {
    const endpoint = 'fal-ai/nano-banana';
    const input = { prompt: 'a lighthouse', num_images: 2, aspect_ratio: '3:4' } as const;
    const submitted = await fal.queue.submit(endpoint, { input });
    expect(submitted).toMatchObject({ status: 'IN_QUEUE', queue_position: 0 });
    const requestId = submitted.request_id;
    await until(async () => {
      const { status } = await fal.queue.status(endpoint, { requestId, logs: true });
      return status === 'COMPLETED' ? status : undefined;
    });
    const { data, requestId: echoed } = await fal.queue.result(endpoint, { requestId });
    expect(echoed).toBe(requestId);
    expect(data.images).toHaveLength(2);
    expect(await decode(data.images[0]?.url ?? '')).toMatchObject({
      format: 'png',
      width: data.images[0]?.width,
      height: data.images[0]?.height,
    });
  });

  it('subscribes to a request until its result', async () => {
    const seen: string[] = [];
    // Long enough for a slow machine to read the state IN_QUEUE.
    const input = { prompt: 'a boat [[slow:3s]]', image_size: { width: 1280, height: 960 } };
    const { data } = await fal.subscribe('fal-ai/bytedance/seedream/v4/text-to-image', {
      input,
      mode: 'polling',
      pollInterval: 15,
      onQueueUpdate: ({ status }) => seen.push(status),
    });
    expect(await decode(data.images[0]?.url ?? '')).toMatchObject({ width: 1280, height: 960 });
    expect(typeof data.seed).toBe('number');
    expect(seen).toContain('IN_QUEUE');
    expect(seen.at(-1)).toBe('COMPLETED');
  });

  it('finds the requests of nested endpoint ids under their root app', async () => {
    const endpoint = 'fal-ai/imagen4/preview/ultra';
    const { data } = await fal.subscribe(endpoint, { input: { prompt: 'x', resolution: '2K' } });
    expect(data.images[0]).toMatchObject({ width: 2048, height: 2048 });
  });

  it('throws a ValidationError for invalid input when the result is fetched', async () => {
    const input = { prompt: 'x', num_images: 99 };
    const asked = fal.subscribe('fal-ai/nano-banana', { input });
    const body = { detail: [{ loc: ['body', 'num_images'], type: 'less_than_equal' }] };
    expect(await catchFailure(asked, ValidationError)).toMatchObject({ status: 422, body });
  });

  it('cancels a request', async () => {
    const endpoint = 'fal-ai/nano-banana';
    const { request_id: requestId } = await fal.queue.submit(endpoint, {
      input: { prompt: 'a slow one [[slow:30s]]' },
    });
    await fal.queue.cancel(endpoint, { requestId });
    const status = await fal.queue.status(endpoint, { requestId });
    expect(status).toMatchObject({ status: 'COMPLETED', error_type: 'client_cancelled' });
    const result = fal.queue.result(endpoint, { requestId });
    expect(await catchFailure(result, ApiError)).toMatchObject({ status: 499 });
  });

  it('ends the wait of a slow request that is still in the queue when the faults are cleared', async () => {
    const endpoint = 'fal-ai/nano-banana';
    const input = { prompt: 'a tower [[slow:600s]]' };
    const { request_id: requestId } = await fal.queue.submit(endpoint, { input });
    const { status } = await fal.queue.status(endpoint, { requestId });
    expect(status).toBe('IN_QUEUE');
    await sandbox.clearFaults();
    await until(
      async () => (await fal.queue.status(endpoint, { requestId })).status === 'COMPLETED',
    );
  });

  it('rejects an invalid key', async () => {
    const { queue } = clientWith('wrong');
    const submitted = queue.submit('fal-ai/nano-banana', { input: { prompt: 'x' } });
    await expect(submitted).rejects.toMatchObject({ status: 401 });
  });
});
