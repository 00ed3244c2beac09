/**
 * Durable log of the sandbox: one JSON event per line, append-only. An append resolves when its
 * bytes are on disk; appends that wait together share one fsync.
 */
import { createReadStream } from 'node:fs';
import { mkdir, open, rename } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';

interface DurableLogOptions {
  path: string;
  /**
   * False skips the fsync, for benchmarks: then an event survives a crash of the process, not of
   * the machine.
   */
  fsync: boolean;
}

interface Waiting {
  line: string;
  settle: (error?: Error) => void;
}

/** Append-only JSON lines, durable when an append resolves. */
export class DurableLog {
  readonly #handle: FileHandle;
  readonly #fsync: boolean;
  #waiting: Waiting[] = [];
  #flushing: Promise<void> | undefined;

  private constructor(handle: FileHandle, fsync: boolean) {
    this.#handle = handle;
    this.#fsync = fsync;
  }

  /** Opens the log for appending, after {@link replayLog} has read it. */
  static async open({ path, fsync }: DurableLogOptions): Promise<DurableLog> {
    const handle = await open(path, 'a+', 0o600);
    const { size } = await handle.stat();
    const last = Buffer.alloc(1);
    if (size > 0) await handle.read(last, 0, 1, size - 1);
    // An incomplete line of a killed process ends here and is not replayed.
    if (size > 0 && last.toString() !== '\n') await handle.appendFile('\n');
    return new DurableLog(handle, fsync);
  }

  /**
   * Writes one event.
   * @returns when it is on disk
   * @throws if the disk fails
   */
  async append(event: object): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const settle = (error?: Error) => (error ? reject(error) : resolve());
    this.#waiting.push({ line: `${JSON.stringify(event)}\n`, settle });
    this.#flushing ??= this.#flush();
    await promise;
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      try {
        // One batch is written while the next one fills.
        await this.#handle.appendFile(batch.map(({ line }) => line).join(''));
        if (this.#fsync) await this.#handle.datasync();
        for (const { settle } of batch) settle();
      } catch (cause) {
        const error = new Error('the sandbox log cannot be written', { cause });
        for (const { settle } of batch) settle(error);
      }
    }
    this.#flushing = undefined;
  }

  /** Waits for appends in flight and closes the file. */
  async close(): Promise<void> {
    await this.#flushing;
    await this.#handle.close();
  }
}

/**
 * Reads every event of the log in order; creates the file if it is missing. A kill during a write
 * leaves an incomplete line, which was never acknowledged and is skipped.
 * @returns the number of lines
 */
export async function replayLog(path: string, onEvent: (event: unknown) => void): Promise<number> {
  await mkdir(dirname(path), { recursive: true });
  await (await open(path, 'a', 0o600)).close();
  let lines = 0;
  const reader = createInterface({ input: createReadStream(path), crlfDelay: Infinity });
  for await (const line of reader) {
    lines += 1;
    const event = parse(line);
    if (event !== undefined) onEvent(event);
  }
  return lines;
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return undefined;
  }
}

/** Replaces the log by these events, atomically, so that forgotten events are not replayed. */
export async function compactLog(path: string, events: Iterable<object>): Promise<void> {
  const draft = `${path}.compacting`;
  const handle = await open(draft, 'w', 0o600);
  try {
    for (const event of events) {
      // Sequential, because the lines must keep their order.
      await handle.appendFile(`${JSON.stringify(event)}\n`);
    }
    await handle.datasync();
  } finally {
    await handle.close();
  }
  await rename(draft, path);
}
