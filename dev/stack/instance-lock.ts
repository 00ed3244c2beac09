import { linkSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { writePrivateFile } from './private-file.ts';
import { commandLine, stopLeftover, isAlive } from './process-identity.ts';

const schema = z.object({
  supervisor: z.number().int().positive(),
  /**
   * Command line of the supervisor, which distinguishes it from another process with the same id.
   */
  commandLine: z.string(),
  processes: z.record(z.string(), z.number().int().positive()),
});
type Lock = z.infer<typeof schema>;

/** Lock that allows one stack per data directory. */
export interface InstanceLock {
  /**
   * Records the processes of this stack, so that the next start can stop them if the supervisor was
   * killed.
   */
  record(processes: Record<string, number>): void;
  release(): void;
}

/** Error if another running stack uses the data directory. */
export class AlreadyRunningError extends Error {
  readonly supervisor: number;

  constructor(supervisor: number) {
    super(`a stack is already running here (process ${supervisor})`);
    this.supervisor = supervisor;
  }
}

/**
 * Locks a data directory for this process. If an earlier supervisor was killed, first stops the
 * processes that it left running. `marks` maps each service to a part of its command line, which
 * identifies the process.
 * @throws AlreadyRunningError if another running stack holds the lock
 */
export async function lockInstance(
  dataDir: string,
  { marks, report }: { marks: Record<string, string>; report: (line: string) => void },
): Promise<InstanceLock> {
  const path = join(dataDir, 'lock.json');
  const own: Lock = {
    supervisor: process.pid,
    commandLine: commandLine(process.pid),
    processes: {},
  };
  while (!create(path, own)) {
    const other = read(path);
    if (other && other.supervisor !== process.pid && isLive(other)) {
      throw new AlreadyRunningError(other.supervisor);
    }
    if (other) await stopLeftovers(other, { marks, report });
    rmSync(path, { force: true });
  }
  return {
    record: (processes) => writePrivateFile(path, JSON.stringify({ ...own, processes })),
    release: () => rmSync(path, { force: true }),
  };
}

function create(path: string, lock: Lock): boolean {
  const draft = `${path}.${process.pid}`;
  writePrivateFile(draft, JSON.stringify(lock));
  try {
    // A hard link appears with its complete content, unlike a file that is still being written.
    linkSync(draft, path);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

function read(path: string): Lock | undefined {
  try {
    return schema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    return undefined; // The lock has just been released, or another version wrote it.
  }
}

function isLive(lock: Lock): boolean {
  return isAlive(lock.supervisor) && commandLine(lock.supervisor) === lock.commandLine;
}

async function stopLeftovers(
  { processes }: Lock,
  { marks, report }: { marks: Record<string, string>; report: (line: string) => void },
): Promise<void> {
  const stops = Object.entries(processes).map(async ([name, pid]) => {
    const mark = marks[name];
    if (mark === undefined) return;
    const signal = name === 'postgres' ? 'SIGINT' : 'SIGTERM';
    if (await stopLeftover(pid, { mark, signal }))
      report(`stopped ${name} left running by an earlier start (process ${pid})`);
  });
  await Promise.all(stops);
}
