/**
 * The order of the test files: the slowest start first, so that no core waits for a single slow
 * file at the end of the run.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The slowest files of a run on two cores. */
const longest = [
  'runbooks/gateway',
  'runbooks/servers',
  'api/schemathesis',
  'api/wide-bodies',
  'cli/studio',
  'docs/snippets',
  'clients/python',
  'bench/bench',
  'faults/restores',
  'faults/outages',
  'faults/slice',
  'api/crash',
  'chat/hardness',
  'workflows/branches',
  'console/callers',
  'console/account',
  'console/operator',
  'api/failures',
  'spec/spec-lines',
  'clients/typescript',
  'api/operators',
  'api/keyed-requests',
  'clients/generated',
  'chat/endings',
  'chat/disconnects',
  'workflows/record',
  'stack/local-stack',
];

/** Sequencer that starts the longest test files first; the others follow in the order found. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const known = longest.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
      return known === -1 ? longest.length : known;
    };
    return files.toSorted((a, b) => place(a) - place(b));
  }
}
