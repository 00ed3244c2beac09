/** The profile of the benchmark: one small image for all requests, with the usual validation. */
import sharp from 'sharp';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startSandbox, stopSandbox, type SandboxProcess } from './harness.ts';

let sandbox: SandboxProcess;
beforeAll(async () => {
  sandbox = await startSandbox({ SANDBOX_TINY_MEDIA: '1', SANDBOX_FSYNC: '0' });
});
afterAll(async () => stopSandbox(sandbox));

it('every image request returns the same 64×64 PNG', async () => {
  const files = await Promise.all(
    ['fal-ai/nano-banana-pro', 'openai/gpt-image-2'].map(async (endpoint) => {
      const submitted = await sandbox.submit(endpoint, { prompt: endpoint });
      const { result } = await sandbox.finish(submitted);
      return (await fetch(result.body.images[0].url)).bytes();
    }),
  );
  expect(files[0]).toEqual(files[1]);
  expect(await sharp(files[0]).metadata()).toMatchObject({ format: 'png', width: 64, height: 64 });
});

it('invalid requests are still refused', async () => {
  const submitted = await sandbox.submit('fal-ai/nano-banana', { prompt: 'x', num_images: 5 });
  expect((await sandbox.finish(submitted)).result.status).toBe(422);
});

it('edit, background removal and video work without fetching the inputs', async () => {
  const image_url = 'http://127.0.0.1:9/none.png';
  const jobs = [
    sandbox.submit('fal-ai/nano-banana/edit', { prompt: 'x', image_urls: [image_url] }),
    sandbox.submit('fal-ai/birefnet/v2', { image_url }),
    sandbox.submit('fal-ai/veo3.1', { prompt: 'x' }),
  ];
  for (const submitted of await Promise.all(jobs)) {
    expect((await sandbox.finish(submitted)).result.status).toBe(200);
  }
});
