import { linkSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { writePrivateFile } from './private-file.ts';
import { commandLine, endLeftover, isAlive } from './process-identity.ts';

const schema = z.object({
  supervisor: z.number().int().positive(),
  /** The supervisor's command line, to tell it from a stranger with the same id. */
  commandLine: z.string(),
  processes: z.record(z.string(), z.number().int().positive()),
});
type Lock = z.infer<typeof schema>;

/** One stack per data directory. */
export interface InstanceLock {
  /** Notes the processes of this stack, for whoever has to clean up after a killed supervisor. */
  record(processes: Record<string, number>): void;
  release(): void;
}

/** Another stack, alive, owns the data directory. */
export class AlreadyRunningError extends Error {
  readonly supervisor: number;

  constructor(supervisor: number) {
    super(`a stack is already running here (process ${supervisor})`);
    this.supervisor = supervisor;
  }
}

/**
 * Takes a data directory for this process. When an earlier supervisor was killed, what it left
 * running is ended first; `marks` gives, per service, a part of its command line that proves that
 * the process is still that service.
 * @throws AlreadyRunningError when another live stack has it.
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
    if (other) await endLeftovers(other, { marks, report });
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
    // Unlike writing to it, linking makes the file whole or not at all.
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
    return undefined; // Gone in the meantime, or of another version: nothing to learn from it.
  }
}

function isLive(lock: Lock): boolean {
  return isAlive(lock.supervisor) && commandLine(lock.supervisor) === lock.commandLine;
}

async function endLeftovers(
  { processes }: Lock,
  { marks, report }: { marks: Record<string, string>; report: (line: string) => void },
): Promise<void> {
  const ends = Object.entries(processes).map(async ([name, pid]) => {
    const mark = marks[name];
    if (mark === undefined) return;
    const signal = name === 'postgres' ? 'SIGINT' : 'SIGTERM';
    if (await endLeftover(pid, { mark, signal }))
      report(`ended ${name} of an earlier run (${pid})`);
  });
  await Promise.all(ends);
}
