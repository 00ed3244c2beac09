/**
 * Recorded histories: one per shape that a workflow's history can have, kept in test/histories/. They are replayed
 * against the code of today; `npm run dev -- record-histories` makes them anew, which is a decision: a history
 * that no longer replays is a job in production that no longer runs.
 */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { historyFromJSON, historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import type { WorkflowHandle } from '@temporalio/client';
import { scrubbedIdOf, scrubHistory } from '../../dev/replay/scrub.ts';

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

/** What a worker must do again to replay a history: its events and their names, without workflow tasks. */
export function shapeOf({ events }: History): string {
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

/** Writes runs of workflows that have ended down: of those with the same shape, the first. */
export async function recordHistories(
  runs: readonly { name: string; handle: WorkflowHandle }[],
): Promise<void> {
  for (const file of await readdir(directory)) await rm(new URL(file, directory));
  const shapes = new Set<string>();
  for (const { name, handle } of runs) {
    const history = await handle.fetchHistory();
    const shape = shapeOf(history);
    if (shapes.has(shape)) continue;
    shapes.add(shape);
    const json = scrubHistory(JSON.parse(historyToJSON(history)));
    await writeFile(new URL(`${name}.json`, directory), fileOf(scrubbedIdOf(json), json));
  }
}

/** Formats a recorded history with one event a line, so that a changed event is one changed line in a diff. */
function fileOf(workflowId: string | undefined, history: unknown): string {
  const { events } = history as { events: unknown[] };
  const lines = events.map((event) => JSON.stringify(event)).join(',\n');
  return `{"workflowId":${JSON.stringify(workflowId)},"history":{"events":[\n${lines}\n]}}\n`;
}
