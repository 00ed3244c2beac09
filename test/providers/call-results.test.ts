/** Comparison of outputs with their plan, and the price of the delivered outputs. */
import { describe, expect, it } from 'vitest';
import { findDifferences, findUnitDiscounts } from '../../providers/call-results.ts';
import {
  addLines,
  sumLines,
  type JobPlan,
  type OutputSpec,
  type StoredArtifact,
} from '../../domain/job-plan.ts';

const film: StoredArtifact = {
  storageKey: 'org/job/0-0.mp4',
  contentType: 'video/mp4',
  sizeBytes: 1,
  sha256: '',
  width: 1280,
  height: 720,
  durationSeconds: 8,
  hasAudio: true,
  contentCredentials: 'none',
};
const spec: OutputSpec = {
  medium: 'video',
  format: null,
  expected: { width: 1280, height: 720, durationSeconds: 8, hasAudio: true },
  variants: [
    { hasAudio: false, unitDiscountMicro: 20 },
    { pixelsBelow: 450_000, unitDiscountMicro: 30 },
    { hasAudio: false, pixelsBelow: 450_000, unitDiscountMicro: 45 },
  ],
};

describe('findDifferences', () => {
  it.each<[Partial<StoredArtifact>, string[]]>([
    [{}, []],
    [{ durationSeconds: 8.4 }, []],
    [{ durationSeconds: 7.4 }, ['durationSeconds']],
    [{ durationSeconds: null }, ['durationSeconds']],
    [{ width: 1278, height: 722 }, []],
    [{ width: 854, height: 480 }, ['width', 'height']],
    [{ hasAudio: false }, ['hasAudio']],
    [{ hasAudio: null }, ['hasAudio']],
    [{ contentType: 'video/webm' }, ['contentType']],
  ])('%j', (found, fields) => {
    const differences = findDifferences(spec, { ...film, ...found });
    expect(differences.map(({ field }) => field)).toEqual(fields);
  });

  it('ignores fields that neither the request nor the medium determines', () => {
    expect(
      findDifferences({ medium: 'video', format: null }, { ...film, hasAudio: false }),
    ).toEqual([]);
    const picture = { ...film, contentType: 'image/webp', durationSeconds: null, hasAudio: null };
    expect(findDifferences({ medium: 'image', format: null }, picture)).toEqual([]);
    expect(findDifferences({ medium: 'audio', format: null }, film)).toEqual([
      { field: 'contentType', expected: 'audio/mpeg', found: 'video/mp4' },
    ]);
  });
});

describe('findUnitDiscounts', () => {
  it.each<[Partial<StoredArtifact>, number]>([
    [{}, 0],
    [{ hasAudio: false }, 20],
    [{ hasAudio: null }, 0],
    [{ width: 854, height: 480 }, 30],
    [{ width: null, height: null }, 0],
    [{ width: 854, height: 480, hasAudio: false }, 45],
  ])('%j → %d', (found, discount) => {
    expect(findUnitDiscounts(spec, { ...film, ...found }).price).toBe(discount);
  });

  it('is 0 if the plan names no cheaper output, like the plans of older jobs', () => {
    const plan: OutputSpec = { medium: 'video', format: null };
    expect(findUnitDiscounts(plan, { ...film, hasAudio: false })).toEqual({ price: 0, cost: 0 });
  });
});

const calls = [0, 1].map((index) => ({
  index,
  quantity: 2,
  // A provider may hear more seconds of a recording than were measured.
  ...(index === 1 && { quantityMax: 4 }),
  unitPriceMicro: 10,
  meter: 'second',
  output: spec,
  inputFrom: null,
}));
const plan = { calls } as unknown as JobPlan;
it.each([
  ['both calls deliver all', [{ delivered: 2 }, { delivered: 2 }], 40],
  ['one delivers in part', [{ delivered: 2 }, { delivered: 1 }], 30],
  ['one fails', [{ delivered: 2 }, { delivered: 0 }], 20],
  ['one has no output', [{ delivered: 2 }], 20],
  ['one delivers more than was requested', [{ delivered: 5 }, { delivered: 2 }], 40],
  ['one reports more than was measured', [{ delivered: 2 }, { delivered: 3 }], 50],
  ['one reports more than is possible', [{ delivered: 2 }, { delivered: 1e9 }], 60],
  ['one delivers lower quality', [{ delivered: 2 }, { delivered: 2, discountMicro: 6 }], 34],
])('the lines of a charge when %s', (_when, delivered, expected) => {
  const outputs = delivered.map((output, callIndex) => ({
    callIndex,
    artifacts: [film],
    data: null,
    error: null,
    ...output,
  }));
  expect(sumLines(addLines(plan.calls, outputs)).chargeMicro).toBe(expected);
});
