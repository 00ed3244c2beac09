/** Replays a history, and finds the event at which the current code diverges from it. */
import { fileURLToPath } from 'node:url';
import type { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { DefaultLogger, Runtime, Worker, type InjectedSinks } from '@temporalio/worker';
import type { DataConverter } from '@temporalio/common';
import { z } from 'zod';
import type { IssuedCommand, RecorderSinks } from './replay-recorder.ts';
import { bundleWorkflows } from '../../worker/bundle.ts';

/** Workflow history, as returned by the server. */
export type History = ReturnType<typeof historyFromJSON>;

/** History and the id of its workflow. */
export interface NamedHistory {
  workflowId: string;
  history: History;
}

/** Workflow bundle, and the data converter for the payloads of a history. */
export interface ReplayedCode {
  code: string;
  dataConverter?: DataConverter;
}

/** Point at which the code diverges from the history. */
export interface Divergence {
  /** First event that the code does not produce; null if it is unknown. */
  eventId: number | null;
  /** Event in the history at this point. */
  expected: string;
  /** Command that the code issued at this point. */
  got: string;
  /**
   * Stack of the workflow code that issued this command (or the last command, if there is none), innermost frame first.
   */
  at: string[];
  /** Error message of the SDK. */
  message: string;
}

/** Event in a history, in the terms of the command that caused it. */
interface RecordedCommand {
  eventId: number;
  kind: IssuedCommand['kind'];
  name: string;
}

/** Returns whether the code issues the same commands as the history. */
export async function replays(bundle: ReplayedCode, run: NamedHistory): Promise<boolean> {
  return (await replayForError(bundle, run)) === null;
}

/** Bundles the workflows of the working tree together with the recorder. */
export function bundleWithRecorder(options: {
  encodeFailures: boolean;
}): Promise<{ code: string }> {
  return bundleWorkflows({ interceptorPaths: [recorderPath] }, options);
}

/** Path of the interceptor that records the commands of the code. */
export const recorderPath = fileURLToPath(new URL('./replay-recorder.ts', import.meta.url));

/** Replays a history with the recorder. Returns where the code diverges, or null if it does not diverge. */
export async function findDivergence(
  recording: ReplayedCode,
  run: NamedHistory,
): Promise<Divergence | null> {
  const issued: IssuedCommand[] = [];
  const sinks: InjectedSinks<RecorderSinks> = {
    recorder: {
      issued: { fn: (_info, command) => void issued.push(command), callDuringReplay: true },
    },
  };
  const message = await replayForError(recording, run, sinks);
  if (message === null) return null;
  return {
    ...findFirstDifference(listCommands(run.history), issued, message),
    message: extractCoreMessage(message),
  };
}

async function replayForError(
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

/** Lists the commands in a history: activities and timers in order, then local activities in order. */
function listCommands({ events }: History): RecordedCommand[] {
  const found: (RecordedCommand & { seq: number })[] = [];
  for (const event of events ?? []) {
    const eventId = Number(event.eventId);
    const activity = event.activityTaskScheduledEventAttributes?.activityType?.name;
    const timer = event.timerStartedEventAttributes?.startToFireTimeout;
    const local = event.markerRecordedEventAttributes?.details?.['data']?.payloads?.[0]?.data;
    if (activity) found.push({ eventId, kind: 'activity', name: activity, seq: 0 });
    if (timer) {
      const waitMs = Number(timer.seconds ?? 0) * 1000 + (timer.nanos ?? 0) / 1e6;
      found.push({ eventId, kind: 'timer', name: `${waitMs} ms`, seq: 0 });
    }
    if (local) {
      const { seq, activity_type: name } = markerData.parse(
        JSON.parse(Buffer.from(local).toString('utf8')),
      );
      found.push({ eventId, kind: 'local activity', name, seq });
    }
  }
  // A marker is recorded when a local activity ends; its `seq` gives the order of the starts.
  return [
    ...found.filter((entry) => !isLocal(entry)),
    ...found.filter(isLocal).toSorted((one, other) => one.seq - other.seq),
  ];
}

function isLocal({ kind }: { kind: string }): boolean {
  return kind === 'local activity';
}

type Difference = Omit<Divergence, 'message'>;

/** Finds the first event that the code does not produce. */
function findFirstDifference(
  recorded: RecordedCommand[],
  issued: IssuedCommand[],
  message: string,
): Difference {
  const differences = [isLocal, (entry: { kind: string }) => !isLocal(entry)].flatMap(
    (isOfKind) => {
      const expectedCommands = recorded.filter(isOfKind);
      const got = issued.filter(isOfKind);
      const index = expectedCommands.findIndex((event, at) => !isSame(event, got[at]));
      const expected = expectedCommands[index];
      if (expected) return [describeDifference(expected, got[index])];
      const more = got[expectedCommands.length];
      return more ? [describeDifference(null, more)] : [];
    },
  );
  // Prefer a command that the code issued, because it has a stack; if the code ended early there is none.
  const [first] = differences.toSorted(
    (one, other) =>
      Number(one.at.length === 0) - Number(other.at.length === 0) ||
      (one.eventId ?? Infinity) - (other.eventId ?? Infinity),
  );
  const [, id, type] = /HistoryEvent\(id: (\d+), (\w+)\)/.exec(message) ?? [];
  const namedInError = id === undefined ? null : { eventId: Number(id), expected: String(type) };
  const earlier =
    namedInError && namedInError.eventId < (first?.eventId ?? Infinity) ? namedInError : null;
  const found = { ...(first ?? endDifference), ...earlier };
  if (found.at.length > 0) return found;
  // Use the place of the thrown error, otherwise of the last command.
  const thrown = findWorkflowFrames(message);
  return { ...found, at: thrown.length > 0 ? thrown : findLastFrames(issued) };
}

const endDifference: Difference = {
  eventId: null,
  expected: 'the recorded end',
  got: 'another end',
  at: [],
};

/** Extracts the message of the SDK's core from an error message that wraps it. */
function extractCoreMessage(message: string): string {
  const [, inner] = /message: "((?:[^"\\]|\\.)*)"/.exec(message) ?? [];
  return inner ?? message;
}

function isSame(event: RecordedCommand, command: IssuedCommand | undefined): boolean {
  // Timers are compared without their duration, because it depends on measured times.
  return event.kind === command?.kind && (event.kind === 'timer' || event.name === command.name);
}

function describeDifference(
  event: RecordedCommand | null,
  command: IssuedCommand | undefined,
): Difference {
  return {
    eventId: event?.eventId ?? null,
    expected: event ? `${event.kind} ${event.name}` : 'nothing more',
    got: command ? `${command.kind} ${command.name}` : 'nothing',
    at: command ? findWorkflowFrames(command.stack) : [],
  };
}

function findLastFrames(issued: IssuedCommand[]): string[] {
  const last = issued.at(-1);
  return last ? findWorkflowFrames(last.stack) : [];
}

/** Returns the frames of a stack that are in the project's workflows, as paths with line and column. */
function findWorkflowFrames(stack: string): string[] {
  const places = [...stack.matchAll(/((?:[\w.-]+\/)*workflows\/[\w./-]+\.ts:\d+:\d+)/g)];
  return places
    .map(([place]) => place.slice(place.lastIndexOf('workflows/')))
    .filter((place) => !place.includes('request-context'));
}

/** Discards the logs of the SDK, because the results of the replays say everything. */
export function silenceRuntime(): void {
  Runtime.install({
    logger: new DefaultLogger('ERROR', () => {}),
    telemetryOptions: { logging: { filter: { core: 'ERROR', other: 'ERROR' }, forward: {} } },
  });
}
