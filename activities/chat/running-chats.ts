/**
 * The chats that run in this process: recorded every few seconds, so that a crash can be settled, and
 * settled in tasks that outlive their sockets.
 */
import pRetry from 'p-retry';
import { withoutCorrelation } from '../../platform/correlation.ts';
import type { Logger } from '../../platform/logger.ts';
import type { ChatLedger, ChatProgress, ChatSettle } from './chat-ledger.ts';

/** A chat whose reservation is open. */
export interface RunningChat {
  id: string;
  /** By `performance.now()`. */
  startedAtMs: number;
  progress: () => ChatProgress;
}

/** See the file's head. */
export interface RunningChats {
  add: (chat: RunningChat) => void;
  /** Settles in the background, soon; the chat is running until that is done. */
  settle: (chat: RunningChat, settle: ChatSettle) => void;
  /** Ends when no chat is left. */
  drained: () => Promise<void>;
}

interface Options {
  ledger: ChatLedger;
  logger: Logger;
  checkpointMs: number;
  reservationTtlMs: number;
}

/** A process that is to end tries so often; then the sweeper settles. */
const triesOfEnding = 5;

/** See `RunningChats`. */
export function createRunningChats(options: Options): RunningChats {
  const { ledger, logger, checkpointMs, reservationTtlMs } = options;
  const running = new Set<RunningChat>();
  const waiting = new Set<() => void>();
  let timer: NodeJS.Timeout | undefined;

  async function checkpoint(): Promise<void> {
    const oldest = performance.now() - checkpointMs;
    const due = [...running].filter((chat) => chat.startedAtMs <= oldest);
    if (due.length === 0) return;
    try {
      await ledger.checkpoint(
        due.map((chat) => chat.progress()),
        reservationTtlMs,
      );
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
    add(chat) {
      running.add(chat);
      // The first chat starts it, but it is about all of them.
      timer ??= withoutCorrelation(() => setTimeout(tick, checkpointMs).unref());
    },
    settle(chat, settle) {
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
    async drained() {
      if (running.size === 0) return;
      await new Promise<void>((resolve) => {
        waiting.add(resolve);
      });
    },
  };
}
