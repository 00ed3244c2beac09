/**
 * Replays one history, and finds the event at which the current code diverges from the recorded
 * run.
 */
import { fileURLToPath } from 'node:url';
import type { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { DefaultLogger, Runtime, Worker, type InjectedSinks } from '@temporalio/worker';
import type { DataConverter } from '@temporalio/common';
import { z } from 'zod';
import type { AskedFor, RecorderSinks } from './replay-recorder.ts';
import { bundleWorkflows } from '../../worker/bundle.ts';

/** Description of a run, as the server returns it. */
export type History = ReturnType<typeof historyFromJSON>;

/** History with its name. */
export interface NamedHistory {
  workflowId: string;
  history: History;
}

/** Workflow code, and the codec that decodes the payloads of a history. */
export interface ReplayedCode {
  code: string;
  dataConverter?: DataConverter;
}

/** Point at which code and history diverge. */
export interface Divergence {
  /** First event that the code does not produce; null if it could not be determined. */
  eventId: number | null;
  /** Command in the history at this point. */
  expected: string;
  /** Command of the code at this point. */
  got: string;
  /**
   * Lines of the workflow code that issued this command, else the last command; the innermost
   * first.
   */
  at: string[];
  /** Error message of the SDK. */
  message: string;
}

/** Commands of a history, named as the code issues them. */
interface Recorded {
  eventId: number;
  kind: AskedFor['kind'];
  what: string;
}

/** Returns true if the code issues the same commands as the history. */
export async function replays(bundle: ReplayedCode, run: NamedHistory): Promise<boolean> {
  return (await failureOf(bundle, run)) === null;
}

/** Bundles the workflows of the working tree with the recorder. */
export function bundleWithRecorder(options: {
  encodeFailures: boolean;
}): Promise<{ code: string }> {
  return bundleWorkflows({ interceptorPaths: [recorderPath] }, options);
}

/** Interceptor that records the commands of the code. */
export const recorderPath = fileURLToPath(new URL('./replay-recorder.ts', import.meta.url));

/** Replays a history with the recorder, to find where the code diverges from it. */
export async function explain(
  recording: ReplayedCode,
  run: NamedHistory,
): Promise<Divergence | null> {
  const asked: AskedFor[] = [];
  const sinks: InjectedSinks<RecorderSinks> = {
    recorder: {
      asked: { fn: (_info, command) => void asked.push(command), callDuringReplay: true },
    },
  };
  const message = await failureOf(recording, run, sinks);
  if (message === null) return null;
  return { ...firstDifference(recordedOf(run.history), asked, message), message: wordsOf(message) };
}

async function failureOf(
  { code, dataConverter }: ReplayedCode,
  { workflowId, history }: NamedHistory,
  sinks?: InjectedSinks<RecorderSinks>,
): Promise<string | null> {
  try {
    const options = {
      workflowBundle: { code },
      ...(dataConverter && { dataConverter }),
      ...(sinks && { sinks }),
    };
    await Worker.runReplayHistory(options, history, workflowId);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const markerData = z.object({ seq: z.number(), activity_type: z.string() });

/**
 * Returns the commands of a history: activities and timers in their order, local activities in
 * theirs.
 */
function recordedOf({ events }: History): Recorded[] {
  const found: (Recorded & { seq: number })[] = [];
  for (const event of events ?? []) {
    const eventId = Number(event.eventId);
    const activity = event.activityTaskScheduledEventAttributes?.activityType?.name;
    const timer = event.timerStartedEventAttributes?.startToFireTimeout;
    const local = event.markerRecordedEventAttributes?.details?.['data']?.payloads?.[0]?.data;
    if (activity) found.push({ eventId, kind: 'activity', what: activity, seq: 0 });
    if (timer) {
      const waitMs = Number(timer.seconds ?? 0) * 1000 + (timer.nanos ?? 0) / 1e6;
      found.push({ eventId, kind: 'timer', what: `${waitMs} ms`, seq: 0 });
    }
    if (local) {
      const { seq, activity_type: what } = markerData.parse(
        JSON.parse(Buffer.from(local).toString('utf8')),
      );
      found.push({ eventId, kind: 'local activity', what, seq });
    }
  }
  // A marker is recorded at the end of a local activity; its number tells the order of the starts.
  return [
    ...found.filter((entry) => !isLocal(entry)),
    ...found.filter(isLocal).toSorted((one, other) => one.seq - other.seq),
  ];
}

function isLocal({ kind }: { kind: string }): boolean {
  return kind === 'local activity';
}

type Difference = Omit<Divergence, 'message'>;

/** Returns the first event that the code does not produce. */
function firstDifference(recorded: Recorded[], asked: AskedFor[], message: string): Difference {
  const differences = [isLocal, (entry: { kind: string }) => !isLocal(entry)].flatMap((of) => {
    const wanted = recorded.filter(of);
    const got = asked.filter(of);
    const index = wanted.findIndex((event, at) => !isSame(event, got[at]));
    const expected = wanted[index];
    if (expected) return [differenceAt(expected, got[index])];
    const more = got[wanted.length];
    return more ? [differenceAt(null, more)] : [];
  });
  // A command that the code issued explains more than a missing command, where the code had ended.
  const [first] = differences.toSorted(
    (one, other) =>
      Number(one.at.length === 0) - Number(other.at.length === 0) ||
      (one.eventId ?? Infinity) - (other.eventId ?? Infinity),
  );
  const [, id, type] = /HistoryEvent\(id: (\d+), (\w+)\)/.exec(message) ?? [];
  const named = id === undefined ? null : { eventId: Number(id), expected: String(type) };
  const earlier = named && named.eventId < (first?.eventId ?? Infinity) ? named : null;
  const found = { ...(first ?? otherEnd), ...earlier };
  if (found.at.length > 0) return found;
  // The code threw an error, or its last command is the nearest known point.
  const thrown = placesOf(message);
  return { ...found, at: thrown.length > 0 ? thrown : lastPlace(asked) };
}

const otherEnd: Difference = {
  eventId: null,
  expected: 'the recorded end',
  got: 'another end',
  at: [],
};

/** Returns the message of the SDK's core, without the messages of the layers around it. */
function wordsOf(message: string): string {
  const [, inner] = /message: "((?:[^"\\]|\\.)*)"/.exec(message) ?? [];
  return inner ?? message;
}

function isSame(event: Recorded, command: AskedFor | undefined): boolean {
  // The duration of a timer may differ, because a replay does not measure the past again.
  return event.kind === command?.kind && (event.kind === 'timer' || event.what === command.what);
}

function differenceAt(event: Recorded | null, command: AskedFor | undefined): Difference {
  return {
    eventId: event?.eventId ?? null,
    expected: event ? `${event.kind} ${event.what}` : 'nothing more',
    got: command ? `${command.kind} ${command.what}` : 'nothing',
    at: command ? placesOf(command.stack) : [],
  };
}

function lastPlace(asked: AskedFor[]): string[] {
  const last = asked.at(-1);
  return last ? placesOf(last.stack) : [];
}

/** Returns the frames of a stack in the project's workflows, as `workflows/file.ts:line:column`. */
function placesOf(stack: string): string[] {
  const places = [...stack.matchAll(/((?:[\w.-]+\/)*workflows\/[\w./-]+\.ts:\d+:\d+)/g)];
  return places
    .map(([place]) => place.slice(place.lastIndexOf('workflows/')))
    .filter((place) => !place.includes('request-context'));
}

/** The result of a replay contains everything, so logs are discarded. */
export function silenceRuntime(): void {
  Runtime.install({
    logger: new DefaultLogger('ERROR', () => {}),
    telemetryOptions: { logging: { filter: { core: 'ERROR', other: 'ERROR' }, forward: {} } },
  });
}
