/**
 * The order of the test files: the longest first, so that no core waits for a single long file at
 * the end of the run.
 */
import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import type { FileCost } from './file-costs.ts';

const root = join(import.meta.dirname, '..', '..');
const costs = JSON.parse(readFileSync(join(root, '.ci/costs.json'), 'utf8')) as {
  [file: string]: FileCost | undefined;
};

/** Sequencer that sorts test files by their recorded wall time; files without one come first. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const wallMs = ({ moduleId }: TestSpecification): number =>
      costs[relative(root, moduleId)]?.wallMs ?? Infinity;
    return files.toSorted((a, b) => wallMs(b) - wallMs(a) || 0);
  }
}
