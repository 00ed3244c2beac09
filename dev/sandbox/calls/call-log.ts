/** Durable log of accepted calls to providers that respond with the result. (fal's queue has its own log.) */
import { join } from 'node:path';
import { z } from 'zod';
import { compactLog, DurableLog, replayLog } from '../log.ts';

const acceptedCall = z.object({
  requestId: z.string(),
  /** Provider and path, for example `elevenlabs/v1/music`. */
  endpoint: z.string(),
  acceptedAtMs: z.number(),
  /** JSON body, or the fields of a form with its files described by name, size and hash. */
  body: z.unknown(),
  idempotencyKey: z.string().nullable(),
  /** `X-Request-Id` or `X-Client-Request-Id` header of the caller. */
  clientRequestId: z.string().nullable(),
});

/** Accepted call, for which a real provider would charge. */
export type AcceptedCall = z.infer<typeof acceptedCall>;

const callsMax = 20_000;
/** At startup, the log is compacted if it has more than this many times the lines that are needed. */
const compactionFactor = 2;

/** Log of accepted calls: the newest are in memory, all since the last compaction on disk. */
export class CallLog {
  #calls: AcceptedCall[];
  readonly #log: DurableLog;

  private constructor(calls: AcceptedCall[], log: DurableLog) {
    this.#calls = calls;
    this.#log = log;
  }

  /** Opens the log in a directory and reads its calls; creates it if it is missing. */
  static async open({ dataDir, fsync }: { dataDir: string; fsync: boolean }): Promise<CallLog> {
    const path = join(dataDir, 'calls.jsonl');
    const replayed: AcceptedCall[] = [];
    const lines = await replayLog(path, (event) => replayed.push(acceptedCall.parse(event)));
    const calls = replayed.slice(-callsMax);
    if (lines > compactionFactor * callsMax) await compactLog(path, calls);
    return new CallLog(calls, await DurableLog.open({ path, fsync }));
  }

  /** Records a call, and returns when the record is on disk. */
  async accept(call: AcceptedCall): Promise<void> {
    await this.#log.append(call);
    this.#calls.push(call);
    if (this.#calls.length > compactionFactor * callsMax) {
      this.#calls = this.#calls.slice(-callsMax);
    }
  }

  /** Returns the calls in memory, oldest first. */
  all(): readonly AcceptedCall[] {
    return this.#calls;
  }

  /** Waits for pending writes, and closes the log. */
  async close(): Promise<void> {
    await this.#log.close();
  }
}
