/** Logging: pino, one JSON line per event, ids only: never bodies, keys or signed URLs. */
import { pino, type DestinationStream, type Logger } from 'pino';
import { correlation } from './correlation.ts';

export type { Logger };

/** Lines are written many at a time; what a killed process loses is the last tenth of a second. */
const flushMs = 100;
const gatheredLengthMax = 65_536;

/**
 * Stdout. Lines are gathered in front of pino's own buffer, which counts all that it holds anew for each
 * line that comes to it.
 */
function openOutput(): DestinationStream & { flushSync: () => void } {
  let gathered = '';
  const pass = (): void => {
    if (gathered === '') return;
    const lines = gathered;
    gathered = '';
    output.write(lines);
  };
  // Before the ones of pino, which write what they have then.
  process.once('beforeExit', pass).once('exit', pass);
  // Below its least length nothing is begun at exit that could not be waited for.
  const output = pino.destination({
    dest: 1,
    sync: false,
    minLength: gatheredLengthMax,
    maxWrite: 2 * gatheredLengthMax,
  });
  setInterval(() => {
    pass();
    output.flush();
  }, flushMs).unref();
  return {
    write(line) {
      gathered += line;
      if (gathered.length >= gatheredLengthMax) pass();
    },
    flushSync() {
      pass();
      output.flushSync();
    },
  };
}

let stdout: DestinationStream | null = null;

let timedAtMs = 0;
let timeField = '';

/** The time, spelled once a millisecond: busy processes write several lines in one. */
function isoTime(): string {
  const nowMs = Date.now();
  if (nowMs !== timedAtMs) {
    timedAtMs = nowMs;
    timeField = `,"time":"${new Date(nowMs).toISOString()}"`;
  }
  return timeField;
}

/** A logger for one process; `level` as in the configuration. */
export function createLogger(name: string, level: string): Logger {
  const options = {
    name,
    level,
    base: { name, pid: process.pid },
    timestamp: isoTime,
    // The ids of the work under way; what a line says itself wins.
    mixin: () => ({ ...correlation() }),
    serializers: { error: describeError, err: describeError },
  };
  stdout ??= openOutput();
  return pino(options, stdout);
}

/** An error without what it may carry: causes may hold request bodies, so only their message stays. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  return {
    type: error.name,
    message: error.message.slice(0, 500),
    stack: error.stack?.slice(0, 2000),
    ...(error.cause instanceof Error && { cause: error.cause.message.slice(0, 500) }),
  };
}
