/** Durable append-only log of the sandbox with one JSON event per line. Concurrent appends share one fsync. */
import { createReadStream } from 'node:fs';
import { mkdir, open, rename } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';

interface DurableLogOptions {
  path: string;
  /** Set false in benchmarks to skip the fsync; events then survive a crash of the process but not of the machine. */
  fsync: boolean;
}

interface Waiting {
  line: string;
  settle: (error?: Error) => void;
}

/** Append-only log of JSON lines. */
export class DurableLog {
  readonly #handle: FileHandle;
  readonly #fsync: boolean;
  #waiting: Waiting[] = [];
  #flushing: Promise<void> | undefined;

  private constructor(handle: FileHandle, fsync: boolean) {
    this.#handle = handle;
    this.#fsync = fsync;
  }

  /** Opens the log for appending. Call it after {@link replayLog}. */
  static async open({ path, fsync }: DurableLogOptions): Promise<DurableLog> {
    const handle = await open(path, 'a+', 0o600);
    const { size } = await handle.stat();
    const last = Buffer.alloc(1);
    if (size > 0) await handle.read(last, 0, 1, size - 1);
    // If a killed process left an incomplete line, end it here; the replay skips it.
    if (size > 0 && last.toString() !== '\n') await handle.appendFile('\n');
    return new DurableLog(handle, fsync);
  }

  /**
   * Writes an event, and returns when it is on disk.
   * @throws Error if the write fails
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
        // While one batch is written, new events collect in the next one.
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

  /** Waits for pending writes, and closes the file. */
  async close(): Promise<void> {
    await this.#flushing;
    await this.#handle.close();
  }
}

/**
 * Reads all events of the log in order, and creates the file if it is missing. Skips incomplete lines, which a kill during a
 * write leaves; their events were never acknowledged.
 * @returns the number of lines
 */
export async function replayLog(path: string, onEvent: (event: unknown) => void): Promise<number> {
  await mkdir(dirname(path), { recursive: true });
  await (await open(path, 'a', 0o600)).close();
  let lines = 0;
  const reader = createInterface({ input: createReadStream(path), crlfDelay: Infinity });
  for await (const line of reader) {
    lines += 1;
    const event = parseLine(line);
    if (event !== undefined) onEvent(event);
  }
  return lines;
}

function parseLine(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return undefined;
  }
}

/** Atomically replaces the content of the log with these events, so that older ones are not replayed. */
export async function compactLog(path: string, events: Iterable<object>): Promise<void> {
  const draft = `${path}.compacting`;
  const handle = await open(draft, 'w', 0o600);
  try {
    for (const event of events) {
      // Written one after the other, because the lines must keep their order.
      await handle.appendFile(`${JSON.stringify(event)}\n`);
    }
    await handle.datasync();
  } finally {
    await handle.close();
  }
  await rename(draft, path);
}
