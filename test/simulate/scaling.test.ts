/**
 * docs/scaling.md contains the tables of the simulation, whose constants are in
 * docs/performance.md.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { apiJobsPerSecond, limits, needOf } from '../../dev/simulate/loads.ts';
import { simulated } from '../../dev/simulate/main.ts';
import { measured } from '../../dev/simulate/measured.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (page: string): string => readFileSync(root + page, 'utf8');

describe('docs/scaling.md', () => {
  it('has the tables of the current constants (npm run dev -- simulate --write)', () => {
    expect(read('docs/scaling.md')).toBe(simulated());
  });

  it.each(Object.entries(measured))('contains %s from docs/performance.md', (_name, figure) => {
    expect(read('docs/performance.md').replaceAll('\n', ' ')).toContain(figure.words);
  });
});

describe('the scaling arithmetic', () => {
  const load = { name: '', jobs: 100, providerSeconds: 4, chats: 0 };

  it('has as many jobs in flight as arrive during one job', () => {
    expect(needOf(load).jobsInFlight).toBe(400);
    expect(needOf({ ...load, providerSeconds: 60 }).jobsInFlight).toBe(6000);
  });

  it('needs ten times as much for ten times the load, and always at least two processes of a kind', () => {
    const [small, large] = [needOf(load), needOf({ ...load, jobs: 1000 })];
    expect(large.temporalCores / small.temporalCores).toBeCloseTo(10);
    expect(large.postgresBytesPerDay / small.postgresBytesPerDay).toBeCloseTo(10);
    expect(needOf({ ...load, jobs: 1 })).toMatchObject({ apis: 2, workers: 2 });
  });

  it('divides the work by the capacity of one process', () => {
    const { apis } = needOf({ ...load, jobs: apiJobsPerSecond(4) * 9.5 });
    expect(apis).toBe(10);
  });

  it('lists the limits by the load at which they are reached', () => {
    const jobs = limits().map((limit) => limit.jobs);
    expect(jobs).toEqual(jobs.toSorted((one, other) => one - other));
  });
});
