/**
 * Chats whose callers leave before the provider has said what they cost: the provider bills them all the
 * same. They are counted per key, and a key that loses more so than it pays is refused for a while. Each
 * process counts when it sees such an end, over the chats of all processes.
 */
import { GatewayError } from '../../domain/errors.ts';
import type { Logger } from '../../platform/logger.ts';
import type { ChatLedger } from './chat-ledger.ts';

/** A chat that was left so. */
export interface AbandonedChat {
  id: string;
  keyId: string;
  /** Micro-credits of the input, which the provider has most likely billed. */
  lostMicro: number;
}

/** See the file's head. */
export interface AbandonedChats {
  /** @throws GatewayError TOO_MANY_ABANDONED_CHATS */
  admit: (keyId: string) => void;
  /** Counts in the background. */
  note: (chat: AbandonedChat) => void;
}

interface Options {
  ledger: Pick<ChatLedger, 'abandon'>;
  logger: Logger;
  /** So many in ten minutes are nobody's business. */
  abandonedMax: number;
}

const windowMs = 600_000;

/** See `AbandonedChats`. */
export function createAbandonedChats({ ledger, logger, abandonedMax }: Options): AbandonedChats {
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
    admit(keyId) {
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
    note: (chat) => void count(chat),
  };
}
