/**
 * Checkpoints of the chats that run in this process. The progress of each chat is recorded regularly,
 * so that the chat can be settled if this process crashes. Its settlement continues after the
 * caller's connection is closed.
 */
import pRetry from 'p-retry';
import { withoutCorrelation, type Logger } from '../platform/logger.ts';
import type { ChatLedger, ChatProgress, ChatSettle } from './chat-ledger.ts';

/** Chat that has not been settled. */
export interface CheckpointedChat {
  id: string;
  progress: () => Omit<ChatProgress, 'ttlMs'>;
}

interface Options {
  ledger: ChatLedger;
  logger: Logger;
  checkpointMs: number;
  reservationTtlMs: number;
}

/**
 * Time from the first output of a chat to its first checkpoint, in milliseconds. If the process
 * crashes earlier, nothing is charged.
 */
const firstCheckpointMs = 1000;
/** Maximum time in milliseconds that the last bytes of an answer wait for the settlement. */
const settleWaitMs = 5000;
/** Maximum attempts to settle a chat during shutdown. If all fail, the sweeper settles it later. */
const shutdownAttempts = 5;

/** Checkpoints of the chats that run in this process. */
export class ChatCheckpoints {
  readonly #options: Options;
  /** Timer of the next checkpoint of each chat; undefined while the chat is being settled. */
  readonly #timers = new Map<CheckpointedChat, NodeJS.Timeout | undefined>();
  #idleWaiter: PromiseWithResolvers<void> | null = null;

  constructor(options: Options) {
    this.#options = options;
  }

  add(chat: CheckpointedChat): void {
    this.#schedule(chat, this.#options.checkpointMs);
  }

  /** Brings the next checkpoint of a chat forward, because it has delivered its first output. */
  advanceCheckpoint(chat: CheckpointedChat): void {
    this.#schedule(chat, Math.min(firstCheckpointMs, this.#options.checkpointMs));
  }

  /**
   * Settles a chat. Attempts that fail are retried, and the chat counts as running until it is
   * settled.
   * @returns the charged micro-credits; null if they are not known after a few seconds, while
   * retries continue in the background
   */
  settle(chat: CheckpointedChat, settle: ChatSettle): Promise<number | null> {
    clearTimeout(this.#timers.get(chat));
    this.#timers.set(chat, undefined);
    const { promise, resolve } = Promise.withResolvers<number | null>();
    const waitTimer = setTimeout(() => resolve(null), settleWaitMs);
    void this.#settleWithRetries(settle)
      .then(resolve)
      .finally(() => {
        clearTimeout(waitTimer);
        this.#remove(chat);
      });
    return promise;
  }

  /** Records no more progress of a chat, which its job settles. */
  stop(chat: CheckpointedChat): void {
    clearTimeout(this.#timers.get(chat));
    this.#remove(chat);
  }

  /** Returns a promise that resolves when no chat is running. */
  waitUntilIdle(): Promise<void> {
    if (this.#timers.size === 0) return Promise.resolve();
    this.#idleWaiter ??= Promise.withResolvers();
    return this.#idleWaiter.promise;
  }

  #schedule(chat: CheckpointedChat, delayMs: number): void {
    clearTimeout(this.#timers.get(chat));
    const timer = withoutCorrelation(() =>
      setTimeout(() => {
        void this.#checkpoint(chat).finally(() => {
          if (this.#timers.get(chat) === timer) this.#schedule(chat, this.#options.checkpointMs);
        });
      }, delayMs).unref(),
    );
    this.#timers.set(chat, timer);
  }

  async #checkpoint(chat: CheckpointedChat): Promise<void> {
    const { ledger, logger, reservationTtlMs: ttlMs } = this.#options;
    try {
      await ledger.checkpoint({ ...chat.progress(), ttlMs });
    } catch (error) {
      logger.warn({ error, chatId: chat.id }, 'chat.checkpoint_failed');
    }
  }

  /**
   * Settles a chat, and retries after a failure.
   * @returns the charged micro-credits; null if the process ends before the chat is settled
   */
  async #settleWithRetries(settle: ChatSettle): Promise<number | null> {
    const { ledger, logger } = this.#options;
    const result = await pRetry(() => ledger.settle(settle), {
      retries: Infinity,
      minTimeout: 200,
      factor: 4,
      maxTimeout: 5000,
      onFailedAttempt({ error }) {
        logger.warn({ error, chatId: settle.id }, 'chat.settle_failed');
      },
      shouldRetry: ({ attemptNumber }) => !this.#idleWaiter || attemptNumber < shutdownAttempts,
      // The errors have been logged by `onFailedAttempt`, and the sweeper will settle the chat.
    }).catch(() => null);
    if (!result) return null;
    if (result.verdict !== 'settled') {
      logger.error({ chatId: settle.id, verdict: result.verdict }, 'chat.not_settled');
    }
    return result.verdict === 'not_reserved' ? 0 : result.charged;
  }

  #remove(chat: CheckpointedChat): void {
    this.#timers.delete(chat);
    if (this.#timers.size === 0) this.#idleWaiter?.resolve();
  }
}
