/**
 * The order of the test files: what takes a minute begins first, or the run ends with one of them while
 * the other core has nothing to do.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The files that took longest, of a run on two cores. */
const longest = [
  'bench/bench',
  'api/schemathesis',
  'api/wide-bodies',
  'docs/snippets',
  'api/crash',
  'cli/studio',
  'faults/outages',
  'api/visible-steps',
  'spec/spec-lines',
  'chat/hardness',
  'api/failures',
  'workflows/branches',
  'api/operators',
  'workflows/record',
  'stack/local-stack',
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
