/**
 * The chats that run in this process: recorded every few seconds, so that a crash can be settled, and
 * settled in tasks that outlive their sockets.
 */
import pRetry from 'p-retry';
import { withoutCorrelation } from '../../platform/correlation.ts';
import type { Logger } from '../../platform/logger.ts';
import type { ChatLedger, ChatProgress, ChatSettle } from './chat-ledger.ts';
import { GatewayError } from '../../domain/errors.ts';

/** A chat whose reservation is open. */
export interface RunningChat {
  id: string;
  /** By `performance.now()`. */
  startedAtMs: number;
  progress: () => ChatProgress;
}

interface Options {
  ledger: ChatLedger;
  logger: Logger;
  checkpointMs: number;
  reservationTtlMs: number;
}

/** A process that is to end tries so often; then the sweeper settles. */
const triesOfEnding = 5;

/** Calculates the progress of a chat; one whose progress fails must not stop the checkpoints of the others. */
function progressOf(chat: RunningChat, logger: Logger): ChatProgress[] {
  try {
    return [chat.progress()];
  } catch (error) {
    logger.error({ error, chatId: chat.id }, 'chat.no_progress');
    return [];
  }
}

/** Makes the registry of the chats that run in this process. */
export function createRunningChats(options: Options) {
  const { ledger, logger, checkpointMs, reservationTtlMs } = options;
  const running = new Set<RunningChat>();
  const waiting = new Set<() => void>();
  let timer: NodeJS.Timeout | undefined;

  async function checkpoint(): Promise<void> {
    const oldest = performance.now() - checkpointMs;
    const due = [...running].filter((chat) => chat.startedAtMs <= oldest);
    if (due.length === 0) return;
    const progress = due.flatMap((chat) => progressOf(chat, logger));
    try {
      await ledger.checkpoint(progress, reservationTtlMs);
    } catch (error) {
      logger.warn({ error, chats: due.length }, 'chat.checkpoint_failed');
    }
  }

  function tick(): void {
    void checkpoint().finally(() => {
      timer = running.size > 0 ? setTimeout(tick, checkpointMs).unref() : undefined;
    });
  }

  async function settleNow(settle: ChatSettle): Promise<void> {
    const { verdict } = await pRetry(() => ledger.settle(settle), {
      retries: Infinity,
      minTimeout: 200,
      factor: 4,
      maxTimeout: 5000,
      onFailedAttempt({ error }) {
        logger.warn({ error, chatId: settle.id }, 'chat.settle_failed');
      },
      shouldRetry: ({ attemptNumber }) => waiting.size === 0 || attemptNumber < triesOfEnding,
    });
    if (verdict !== 'settled') logger.error({ chatId: settle.id, verdict }, 'chat.not_settled');
  }

  return {
    add(chat: RunningChat): void {
      running.add(chat);
      // The first chat starts it, but it is about all of them.
      timer ??= withoutCorrelation(() => setTimeout(tick, checkpointMs).unref());
    },
    /** Settles in the background, soon; the chat is running until that is done. */
    settle(chat: RunningChat, settle: ChatSettle): void {
      // The last bytes of the answer leave first.
      setImmediate(() => {
        void settleNow(settle)
          // Told at each try.
          .catch(() => {})
          .finally(() => {
            running.delete(chat);
            if (running.size > 0) return;
            for (const wake of waiting) wake();
            waiting.clear();
          });
      });
    },
    /** Ends when no chat is left. */
    drained: async (): Promise<void> => {
      if (running.size === 0) return;
      await new Promise<void>((resolve) => {
        waiting.add(resolve);
      });
    },
  };
}
/** See `createRunningChats`. */
export type RunningChats = ReturnType<typeof createRunningChats>;

/** A chat that was left so. */
export interface AbandonedChat {
  id: string;
  keyId: string;
  /** Micro-credits of the input, which the provider has most likely billed. */
  lostMicro: number;
}

interface AbandonedOptions {
  ledger: Pick<ChatLedger, 'abandon'>;
  logger: Logger;
  /** So many in ten minutes are nobody's business. */
  abandonedMax: number;
}

const windowMs = 600_000;

/**
 * Chats whose callers leave before the provider has said what they cost: the provider bills them all the
 * same. They are counted per key, and a key that loses more so than it pays is refused for a while. Each
 * process counts when it sees such an end, over the chats of all processes.
 */
export function createAbandonedChats({ ledger, logger, abandonedMax }: AbandonedOptions) {
  const refusedUntilMs = new Map<string, number>();

  async function count(chat: AbandonedChat): Promise<void> {
    const { keyId } = chat;
    try {
      const counted = await ledger.abandon(chat, windowMs);
      const { abandoned, lostMicro, paidMicro } = counted;
      if (abandoned <= abandonedMax || lostMicro <= paidMicro) return;
      refusedUntilMs.set(keyId, performance.now() + windowMs);
      logger.warn({ keyId, ...counted }, 'chat.key_refused');
    } catch (error) {
      logger.warn({ error, keyId }, 'chat.abandoned_not_counted');
    }
  }

  return {
    /** @throws GatewayError TOO_MANY_ABANDONED_CHATS */
    admit(keyId: string): void {
      const untilMs = refusedUntilMs.get(keyId);
      if (untilMs === undefined) return;
      const leftMs = untilMs - performance.now();
      if (leftMs <= 0) {
        refusedUntilMs.delete(keyId);
        return;
      }
      throw new GatewayError('TOO_MANY_ABANDONED_CHATS', undefined, {
        retryAfterSeconds: Math.ceil(leftMs / 1000),
      });
    },
    /** Counts in the background. */
    note: (chat: AbandonedChat): void => void count(chat),
  };
}
