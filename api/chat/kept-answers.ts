/**
 * Answers of chats kept under an Idempotency-Key. A key is free again exactly when nothing was charged
 * under it; otherwise it stands for the answer, or says that the answer was not kept.
 */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import type { ChatBill } from '../../activities/chat/open-chat.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { DatabasePool } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import { fingerprintOf } from '../middleware/idempotency-key.ts';

/** A chat under a key. */
export interface KeyedChat {
  organizationId: string;
  idempotencyKey: string;
  chatId: string;
}

/** An answer as it was sent. */
export interface KeptAnswer {
  body: Buffer;
  contentType: string;
}

/** Kept answers over a pool. */
export interface KeptAnswers {
  /**
   * Claims the key for a chat; the answer when there is one already.
   * @throws GatewayError IDEMPOTENCY_KEY_REUSED, REQUEST_IN_PROGRESS, ANSWER_NOT_KEPT
   */
  claim: (chat: KeyedChat, request: { path: string; body: unknown }) => Promise<KeptAnswer | null>;
  /**
   * Keeps the answer of a chat with a key. Never throws: an answer is worth more than its record, and
   * one that is charged but not kept is known by its charge.
   */
  keep: (chat: KeyedChat | null, answer: { text: string; contentType: string }) => Promise<void>;
  /** Gives the key back when nothing was charged under it and no answer is kept. Never throws. */
  free: (chat: KeyedChat | null, bill: ChatBill | null) => Promise<void>;
}

/** The longest answer of any model fits, streamed token by token. */
export const keptBytesMax = 32 * 1024 * 1024;
/** After this a claim without a reservation is taken over, and a charge without an answer believed. */
const staleAfter = '10 seconds';

const row = z.object({
  verdict: z.enum(['claimed', 'same', 'other', 'in_progress', 'not_kept']),
  answer: z.instanceof(Buffer).nullable(),
  answer_type: z.string().nullable(),
});

/** See `KeptAnswers`. */
export function createKeptAnswers(pool: DatabasePool, logger: Logger): KeptAnswers {
  async function quietly(work: Promise<unknown>): Promise<void> {
    await work.catch((error: unknown) => logger.warn({ error }, 'chat.key_not_recorded'));
  }
  return {
    async claim({ organizationId, idempotencyKey, chatId }, { path, body }) {
      const found = await pool.one(sql.type(row)`
        SELECT verdict, answer, answer_type FROM claim_chat_key(${organizationId},
          ${idempotencyKey}, ${fingerprintOf(path, body)}, ${chatId}, ${staleAfter}::interval)`);
      if (found.verdict === 'other') throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
      if (found.verdict === 'not_kept') throw new GatewayError('ANSWER_NOT_KEPT');
      if (found.verdict === 'in_progress') {
        const message = 'A chat with this Idempotency-Key is still being answered. Try again.';
        throw new GatewayError('REQUEST_IN_PROGRESS', message, { retryAfterSeconds: 1 });
      }
      const { answer, answer_type: contentType } = found;
      return answer && contentType ? { body: answer, contentType } : null;
    },
    async keep(chat, { text, contentType }) {
      if (!chat) return;
      const body = Buffer.from(text);
      if (body.length > keptBytesMax) return;
      await quietly(
        pool.query(sql.type(z.object({}))`UPDATE idempotency_claim
          SET answer = ${sql.binary(body)}, answer_type = ${contentType} WHERE ${claimOf(chat)}`),
      );
    },
    async free(chat, bill) {
      if (!chat || (bill && bill.creditsConsumed > 0)) return;
      await quietly(
        pool.query(sql.type(z.object({}))`DELETE FROM idempotency_claim
          WHERE ${claimOf(chat)} AND answer IS NULL`),
      );
    },
  };
}

function claimOf({ organizationId, idempotencyKey, chatId }: KeyedChat): FragmentSqlToken {
  return sql.fragment`organization_id = ${organizationId} AND idempotency_key = ${idempotencyKey}
    AND job_id = ${chatId}`;
}
