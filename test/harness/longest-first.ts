/**
 * The order of the test files: what takes a minute begins first, or the run ends with one of them while
 * the other core has nothing to do.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The files that took longest, of a run on two cores. */
const longest = [
  'runbooks/gateway',
  'runbooks/servers',
  'api/schemathesis',
  'docs/snippets',
  'cli/studio',
  'bench/bench',
  'api/wide-bodies',
  'spec/spec-lines',
  'api/failures',
  'api/crash',
  'chat/hardness',
  'workflows/branches',
  'api/operators',
  'clients/python',
  'api/visible-steps',
  'api/keyed-requests',
  'clients/generated',
  'faults/outages',
  'chat/endings',
  'chat/abandoned',
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
