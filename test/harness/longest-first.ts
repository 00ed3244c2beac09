/**
 * The order of the test files: what takes a minute begins first, or the run ends with one of them while
 * the other core has nothing to do.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The files that took longest, of a run on two cores. */
const longest = [
  'api/schemathesis',
  'bench/bench',
  'docs/snippets',
  'api/video',
  'workflows/record',
  'api/failures',
  'api/quick-calls',
  'faults/outages',
  'stack/local-stack',
  'api/operators',
  'api/crash',
  'sandbox/video-endpoints',
  'cli/studio',
  'workflows/replay',
  'faults/slice',
];

/** See the file's head. The other files follow as they were found. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const known = longest.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
      return known === -1 ? longest.length : known;
    };
    return files.toSorted((a, b) => place(a) - place(b));
  }
}
