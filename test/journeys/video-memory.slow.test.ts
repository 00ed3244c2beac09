/** A large video is stored and read with constant memory. */
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });

/** Generates a video and returns its job with the result. */
async function generate(prompt: string): Promise<{ jobId: string; url: string }> {
  const body = { prompt, durationSeconds: 4 };
  const ticket = await gateway.call('/api/v1/studio/video/generate', { body });
  const { jobId } = ticket.body.data;
  const done = await gateway.untilDone(jobId);
  return { jobId, url: done.body.data.result.url };
}

it('a large video is stored with constant memory use', async () => {
  // A first large file grows the memory once (buffers, code); the measurement starts after it.
  await generate('[[big:20mb]] a part of the sea');
  const before = process.memoryUsage.rss();
  let peak = before;
  const watch = setInterval(() => (peak = Math.max(peak, process.memoryUsage.rss())), 20);
  const job = await generate('[[big:110mb]] the whole sea');
  const [artifact] = await gateway.database.query<{ size_bytes: string }>(
    'SELECT size_bytes FROM artifact WHERE job_id = $1',
    [job.jobId],
  );
  const sizeBytes = Number(artifact?.size_bytes);
  expect(sizeBytes).toBeGreaterThan(110 * 1024 * 1024);
  // Reading it back streams as well.
  let readBytes = 0;
  const [answer] = (await once(get(job.url), 'response')) as [IncomingMessage];
  for await (const chunk of answer) readBytes += (chunk as Buffer).length;
  clearInterval(watch);
  expect(readBytes).toBe(sizeBytes);
  // API, workers and this reader are one process here.
  expect((peak - before) / 1024 / 1024).toBeLessThan(100);
});
