/**
 * The worker compares a provider's output with the plan before the charge, and charges the
 * delivered amount.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { useOwnGateway } from '../harness/gateway.ts';
import type { SpawnedProcess } from '../harness/running-gateway.ts';

let worker: SpawnedProcess;
// It reads the log of its worker.
const gateway = useOwnGateway({ worker: false, latencyMs: 10 });
beforeAll(async () => {
  worker = await gateway.spawn('worker', { LOG_LEVEL: 'warn' });
});

/** A job's billing. */
async function make(path: string, body: object) {
  const accepted = await gateway.call(path, { body: { async: true, ...body } });
  expect(accepted.status, JSON.stringify(accepted.body)).toBe(202);
  const { jobId } = accepted.body.data;
  const { status, billing } = (await gateway.untilDone(jobId)).body.data;
  expect(status).toBe('completed');
  return { jobId, reserved: billing.reserved, charged: billing.charged };
}

/** The fields that the log says are not as planned; its lines come a moment later. */
async function expectDifferences(jobId: string, fields: string[]): Promise<void> {
  const found = () =>
    worker.lines
      .filter((line) => line.msg === 'call.output_differs' && line['jobId'] === jobId)
      .flatMap((line) => line['differences'] as { field: string }[])
      .map(({ field }) => field);
  await expect.poll(found).toEqual(fields);
}

describe('a video', () => {
  const film = (body: object) => make('/api/v1/studio/video/generate', body);

  it.each([
    ['as asked', '', { durationSeconds: 4 }, 160, 160, []],
    ['without the sound', '[[silent-film]]', { durationSeconds: 4 }, 160, 80, ['hasAudio']],
    ['half as long', '[[short-film:2]]', { durationSeconds: 4 }, 160, 80, ['durationSeconds']],
    [
      'half as long, without the sound',
      '[[short-film:2]] [[silent-film]]',
      { durationSeconds: 4 },
      160,
      40,
      ['hasAudio', 'durationSeconds'],
    ],
    ['longer', '[[short-film:8]]', { durationSeconds: 4 }, 160, 160, ['durationSeconds']],
    [
      'smaller',
      '[[small-media:1.6]]',
      { model: 'seedance-2.0', durationSeconds: 4 },
      121.36,
      53.84,
      [],
    ],
  ])(
    'delivered %s is charged as delivered',
    async (_name, marker, fields, reserved, charged, differences) => {
      const job = await film({ prompt: `${marker} waves`, ...fields });
      expect(job).toMatchObject({ reserved, charged });
      await expectDifferences(job.jobId, differences);
    },
  );
});

describe('images', () => {
  const picture = (body: object) => make('/api/v1/studio/image/generate', body);

  it.each([
    ['nano-banana-pro', '', { resolution: '4K' }, 30, 30, []],
    ['nano-banana-pro', '[[small-media:2]]', { resolution: '4K' }, 30, 15, []],
    [
      'alpha-image-2',
      '[[small-media:2]]',
      { quality: 'low', numImages: 2, imageSize: { width: 2048, height: 2048 } },
      8,
      2,
      ['width', 'height', 'width', 'height'],
    ],
    ['seedream', '[[small-media:2]]', { width: 2048 }, 3, 3, ['width', 'height']],
  ])(
    'from %s with the fault "%s" are charged as delivered',
    async (model, marker, fields, reserved, charged, differences) => {
      const job = await picture({ prompt: `${marker} a tree`, model, ...fields });
      expect(job).toMatchObject({ reserved, charged });
      await expectDifferences(job.jobId, differences);
    },
  );
});
