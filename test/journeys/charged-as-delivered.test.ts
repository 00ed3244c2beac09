/**
 * The worker compares a provider's output with the plan before the charge, and charges the
 * delivered amount. `test/providers/call-results.test.ts` tests the rules.
 */
import { beforeAll, expect, it, vi } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });
/** Objects that the workers logged as warnings. */
const warnings: unknown[] = [];
beforeAll(() => {
  // The workers of a shared gateway run in this process.
  const warn = vi.spyOn(gateway.api.services.logger, 'warn');
  warn.mockImplementation((...line: unknown[]) => void warnings.push(line));
  return () => warn.mockRestore();
});

const film = { path: 'video/generate', durationSeconds: 4 };
const picture = { path: 'image/generate', model: 'nano-banana-pro', resolution: '4K' };
const pictures = {
  path: 'image/generate',
  model: 'alpha-image-2',
  quality: 'low',
  numImages: 2,
  imageSize: { width: 2048, height: 2048 },
};
const sizes = ['width', 'height', 'width', 'height'];

it.concurrent.each([
  ['a film without sound', '[[silent-film]]', film, 160, 80, ['hasAudio']],
  ['a film half as long', '[[short-film:2]]', film, 160, 80, ['durationSeconds']],
  ['a smaller film', '[[small-media:1.6]]', { ...film, model: 'seedance-2.0' }, 121.36, 53.84, []],
  ['a smaller image', '[[small-media:2]]', picture, 30, 15, []],
  ['two smaller images', '[[small-media:2]]', pictures, 8, 2, sizes],
])(
  '%s is charged as delivered, and logged',
  async (_name, marker, { path, ...fields }, reserved, charged, differences) => {
    const body = { async: true, prompt: `${marker} waves`, ...fields };
    const { jobId } = (await gateway.call(`/api/v1/studio/${path}`, { body })).body.data;
    expect((await gateway.untilDone(jobId)).body.data).toMatchObject({
      status: 'completed',
      billing: { reserved, charged },
    });
    const logged = warnings
      .filter((line) => JSON.stringify(line).includes(jobId))
      .flatMap((line) => (line as [{ differences: { field: string }[] }])[0].differences);
    expect(logged.map(({ field }) => field)).toEqual(differences);
  },
);
