/** Durable log of the calls that were accepted by providers that respond with the result. */
import { join } from 'node:path';
import { z } from 'zod';
import { compactLog, DurableLog, replayLog } from '../log.ts';

const acceptedCall = z.object({
  requestId: z.string(),
  /** Provider and path: `elevenlabs/v1/music`. */
  endpoint: z.string(),
  acceptedAtMs: z.number(),
  /** JSON body; of a form its fields, with files described by name, size and hash. */
  body: z.unknown(),
  idempotencyKey: z.string().nullable(),
  /** The caller's `X-Request-Id` or `X-Client-Request-Id`. */
  clientRequestId: z.string().nullable(),
});

/** Accepted call, which the real provider would charge. */
export type AcceptedCall = z.infer<typeof acceptedCall>;

const callsMax = 20_000;
/** The log is compacted at start if it has this many times more lines than needed. */
const compactionFactor = 2;

/** Accepted calls: the newest in memory, all since the last compaction on disk. */
export class CallLog {
  #calls: AcceptedCall[];
  readonly #log: DurableLog;

  private constructor(calls: AcceptedCall[], log: DurableLog) {
    this.#calls = calls;
    this.#log = log;
  }

  /** Replays the log of this directory, or starts an empty one. */
  static async open({ dataDir, fsync }: { dataDir: string; fsync: boolean }): Promise<CallLog> {
    const path = join(dataDir, 'calls.jsonl');
    const replayed: AcceptedCall[] = [];
    const lines = await replayLog(path, (event) => replayed.push(acceptedCall.parse(event)));
    const calls = replayed.slice(-callsMax);
    if (lines > compactionFactor * callsMax) await compactLog(path, calls);
    return new CallLog(calls, await DurableLog.open({ path, fsync }));
  }

  /**
   * Records a call.
   * @returns when the record is on disk
   */
  async accept(call: AcceptedCall): Promise<void> {
    await this.#log.append(call);
    this.#calls.push(call);
    if (this.#calls.length > compactionFactor * callsMax) {
      this.#calls = this.#calls.slice(-callsMax);
    }
  }

  /** All kept calls, oldest first. */
  all(): readonly AcceptedCall[] {
    return this.#calls;
  }

  /** Waits until the log is written. */
  async close(): Promise<void> {
    await this.#log.close();
  }
}
