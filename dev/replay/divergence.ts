/** Replaying one history, and saying exactly where the code of today goes another way than the recorded run. */
import { fileURLToPath } from 'node:url';
import type { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { DefaultLogger, Runtime, Worker, type InjectedSinks } from '@temporalio/worker';
import type { DataConverter } from '@temporalio/common';
import { z } from 'zod';
import type { AskedFor, RecorderSinks } from './replay-recorder.ts';
import { bundleWorkflows } from '../../worker/bundle.ts';

/** A run as the server tells it. */
export type History = ReturnType<typeof historyFromJSON>;

/** A history with its name. */
export interface NamedHistory {
  workflowId: string;
  history: History;
}

/** Workflow code, and how it reads the payloads of a history. */
export interface ReplayedCode {
  code: string;
  dataConverter?: DataConverter;
}

/** Where code and history part. */
export interface Divergence {
  /** The first event that the code does not lead to; null when it could not be told. */
  eventId: number | null;
  /** What the history has there. */
  expected: string;
  /** What the code asked for instead. */
  got: string;
  /** Lines of the workflow's code, the innermost first: of what it asked for there, or last. */
  at: string[];
  /** The SDK's own words. */
  message: string;
}

/** What happened in a history, in the words in which the code asks for it. */
interface Recorded {
  eventId: number;
  kind: AskedFor['kind'];
  what: string;
}

/** Whether a history leads the code to the same commands. */
export async function replays(bundle: ReplayedCode, run: NamedHistory): Promise<boolean> {
  return (await failureOf(bundle, run)) === null;
}

/** Bundles the workflows of the working tree together with the recorder. */
export function bundleWithRecorder(options: {
  encodeFailures: boolean;
}): Promise<{ code: string }> {
  return bundleWorkflows({ interceptorPaths: [recorderPath] }, options);
}

/** The interceptor that tells what the code asks for. */
export const recorderPath = fileURLToPath(new URL('./replay-recorder.ts', import.meta.url));

/** Replays a history again, against a bundle with the recorder, to say where it diverges. */
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

/** Commands of a history: activities and timers in their order, local activities in theirs. */
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
  // A marker stands where a local activity ended; its number says when it was asked for.
  return [
    ...found.filter((entry) => !isLocal(entry)),
    ...found.filter(isLocal).toSorted((one, other) => one.seq - other.seq),
  ];
}

function isLocal({ kind }: { kind: string }): boolean {
  return kind === 'local activity';
}

type Difference = Omit<Divergence, 'message'>;

/** The first event to which the code did not lead. */
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
  // What the code asked for is more telling than what it did not ask for: it had ended there.
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
  // The code threw, or the last thing it asked for is as near as one can say.
  const thrown = placesOf(message);
  return { ...found, at: thrown.length > 0 ? thrown : lastPlace(asked) };
}

const otherEnd: Difference = {
  eventId: null,
  expected: 'the recorded end',
  got: 'another end',
  at: [],
};

/** What core said, out of the wrapping of several layers. */
function wordsOf(message: string): string {
  const [, inner] = /message: "((?:[^"\\]|\\.)*)"/.exec(message) ?? [];
  return inner ?? message;
}

function isSame(event: Recorded, command: AskedFor | undefined): boolean {
  // The time of a timer may differ: it is the past that a replay cannot measure again.
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

/** The frames of a stack that lie in the project's workflows, as `workflows/file.ts:line:column`. */
function placesOf(stack: string): string[] {
  const places = [...stack.matchAll(/((?:[\w.-]+\/)*workflows\/[\w./-]+\.ts:\d+:\d+)/g)];
  return places
    .map(([place]) => place.slice(place.lastIndexOf('workflows/')))
    .filter((place) => !place.includes('request-context'));
}

/** A replay says what it has to say by its result. */
export function silenceRuntime(): void {
  Runtime.install({
    logger: new DefaultLogger('ERROR', () => {}),
    telemetryOptions: { logging: { filter: { core: 'ERROR', other: 'ERROR' }, forward: {} } },
  });
}
