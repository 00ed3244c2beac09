/**
 * Recorded histories: one per workflow type and way to end, kept in test/histories/. They are replayed
 * against the code of today; `npm run record-histories` makes them anew, which is a decision: a history
 * that no longer replays is a job in production that no longer runs.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { historyFromJSON, historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import type { WorkflowHandle } from '@temporalio/client';
import { scrubbedIdOf, scrubHistory } from '../../worker/replay/scrub.ts';

type History = ReturnType<typeof historyFromJSON>;

const directory = new URL('../histories/', import.meta.url);

/** One recorded run. */
export interface RecordedHistory {
  /** `<workflow type>.<how it ended>` */
  name: string;
  workflowId: string;
  history: History;
}

/** All recorded runs, in order of their names. */
export async function readHistories(): Promise<RecordedHistory[]> {
  const files = (await readdir(directory)).filter((file) => file.endsWith('.json')).toSorted();
  return Promise.all(
    files.map(async (file) => {
      const { workflowId, history } = JSON.parse(
        await readFile(new URL(file, directory), 'utf8'),
      ) as { workflowId: string; history: unknown };
      return { name: file.replace(/\.json$/, ''), workflowId, history: historyFromJSON(history) };
    }),
  );
}

/** Writes down the run of a workflow that has ended. */
export async function recordHistory(name: string, handle: WorkflowHandle): Promise<void> {
  const history = await handle.fetchHistory();
  const json = scrubHistory(JSON.parse(historyToJSON(history)));
  const workflowId = scrubbedIdOf(json);
  await writeFile(
    new URL(`${name}.json`, directory),
    `${JSON.stringify({ workflowId, history: json }, null, 1)}\n`,
  );
}
