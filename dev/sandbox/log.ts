/**
 * The sandbox's durable log: one JSON event a line, appended only. An append is settled when its
 * bytes are on disk, and appends that wait together share one fsync.
 */
import { createReadStream } from 'node:fs';
import { mkdir, open, rename } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';

interface DurableLogOptions {
  path: string;
  /** False skips the fsync, for benchmarks: an event then survives a crash of the process only. */
  fsync: boolean;
}

interface Waiting {
  line: string;
  settle: (error?: Error) => void;
}

async function fileSizeBytes(path: string): Promise<number> {
  const handle = await open(path, 'a+');
  try {
    return (await handle.stat()).size;
  } finally {
    await handle.close();
  }
}

/** A kill during a write leaves half a line, never acknowledged to anyone: cut it off. */
async function cutTornTail(path: string): Promise<void> {
  const sizeBytes = await fileSizeBytes(path);
  if (sizeBytes === 0) return;
  const handle = await open(path, 'r+');
  try {
    const block = Buffer.alloc(64 * 1024);
    let end = sizeBytes;
    while (end > 0) {
      const start = Math.max(0, end - block.length);
      // The search goes backwards, block after block.
      await handle.read(block, 0, end - start, start);
      const newline = block.subarray(0, end - start).lastIndexOf(0x0a);
      if (newline >= 0 || start === 0) {
        const keepBytes = newline >= 0 ? start + newline + 1 : 0;
        if (keepBytes < sizeBytes) await handle.truncate(keepBytes);
        return;
      }
      end = start;
    }
  } finally {
    await handle.close();
  }
}

/** Append-only JSON lines, durable before an append is settled. */
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
    return new DurableLog(await open(path, 'a', 0o600), fsync);
  }

  /** Writes one event. @returns when it is on disk. @throws when the disk refuses it. */
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
        // One batch is in flight while the next gathers.
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
 * Reads every event of the log in order, creating the file when it is missing.
 * @returns how many lines there were.
 */
export async function replayLog(path: string, onEvent: (event: unknown) => void): Promise<number> {
  await mkdir(dirname(path), { recursive: true });
  await cutTornTail(path);
  let lines = 0;
  const reader = createInterface({ input: createReadStream(path), crlfDelay: Infinity });
  for await (const line of reader) {
    if (line === '') continue;
    lines += 1;
    onEvent(JSON.parse(line));
  }
  return lines;
}

/** Replaces the log by these events, atomically: what was forgotten must not be replayed forever. */
export async function compactLog(path: string, events: Iterable<object>): Promise<void> {
  const draft = `${path}.compacting`;
  const handle = await open(draft, 'w', 0o600);
  try {
    for (const event of events) {
      // The lines must keep their order.
      await handle.appendFile(`${JSON.stringify(event)}\n`);
    }
    await handle.datasync();
  } finally {
    await handle.close();
  }
  await rename(draft, path);
}
