/**
 * Recorded histories in test/histories/, one for each shape that a workflow’s history can have.
 * Tests replay them against the current code. `npm run dev -- record-histories` records them again;
 * do so only on purpose, because a history that no longer replays means that running jobs in
 * production fail.
 */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { historyFromJSON, historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import type { WorkflowHandle } from '@temporalio/client';
import { findScrubbedWorkflowId, scrubHistory } from '../../dev/replay/scrub.ts';

type History = ReturnType<typeof historyFromJSON>;

const directory = new URL('../histories/', import.meta.url);

/** One recorded run. */
export interface RecordedHistory {
  /** `<workflow type>.<end of the workflow>` */
  name: string;
  workflowId: string;
  history: History;
}

/** All recorded runs, sorted by name. */
export async function readHistories(from = directory): Promise<RecordedHistory[]> {
  const files = (await readdir(from)).filter((file) => file.endsWith('.json')).toSorted();
  return Promise.all(
    files.map(async (file) => {
      const { workflowId, history } = JSON.parse(await readFile(new URL(file, from), 'utf8')) as {
        workflowId: string;
        history: unknown;
      };
      return { name: file.replace(/\.json$/, ''), workflowId, history: historyFromJSON(history) };
    }),
  );
}

/** The shape of a history: its events and their names, without workflow tasks. */
export function readShape({ events }: History): string {
  return (events ?? [])
    .flatMap((event) => {
      const [name = ''] = Object.entries(event)
        .filter(([field, value]) => field.endsWith('EventAttributes') && value)
        .map(([field]) => field.replace('EventAttributes', ''));
      if (name.startsWith('workflowTask') || name.startsWith('workflowExecutionStarted')) return [];
      const local = event.markerRecordedEventAttributes?.details?.['data']?.payloads?.[0]?.data;
      const what =
        event.activityTaskScheduledEventAttributes?.activityType?.name ??
        event.workflowExecutionSignaledEventAttributes?.signalName ??
        (local
          ? (JSON.parse(Buffer.from(local).toString()) as { activity_type: string }).activity_type
          : '');
      return [`${name} ${what}`];
    })
    .join('\n');
}

/** Writes the histories of ended workflows to files: for each shape, the first. */
export async function recordHistories(
  runs: readonly { name: string; handle: WorkflowHandle }[],
): Promise<void> {
  for (const file of await readdir(directory)) await rm(new URL(file, directory));
  const shapes = new Set<string>();
  for (const { name, handle } of runs) {
    const history = await handle.fetchHistory();
    const shape = readShape(history);
    if (shapes.has(shape)) continue;
    shapes.add(shape);
    const json = scrubHistory(JSON.parse(historyToJSON(history)));
    await writeFile(
      new URL(`${name}.json`, directory),
      formatHistory(findScrubbedWorkflowId(json), json),
    );
  }
}

/**
 * Formats a recorded history with one event a line, so that a diff shows one line for a changed
 * event.
 */
function formatHistory(workflowId: string | undefined, history: unknown): string {
  const { events } = history as { events: unknown[] };
  const lines = events.map((event) => JSON.stringify(event)).join(',\n');
  return `{"workflowId":${JSON.stringify(workflowId)},"history":{"events":[\n${lines}\n]}}\n`;
}
