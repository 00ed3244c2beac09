/** Types of the chat ledger: reservation, checkpoint, settlement and sweep of chats. */
import { z } from 'zod';
import {
  balance,
  endUserRejections,
  insufficientCredits,
  itemNotStarted,
  jobsMaxReached,
  keyLimitExceeded,
  type SettleResult,
  settleResult,
} from '../domain/credits.ts';
import { sql } from 'slonik';
import { assert, type ErrorCode } from '../domain/errors.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import type { Metrics } from '../platform/metrics.ts';
import {
  createApplyOperation,
  toPriceFields,
  type Reservation,
  type Settlement,
} from '../ledger/ledger.ts';
import { asJson } from '../domain/json.ts';
import { createBatcher } from '../platform/batch.ts';

/** Claim of an Idempotency-Key. `holder` identifies the request that holds the claim. */
export interface ChatClaim {
  key: string;
  holder: string;
}

/**
 * Amounts of a reservation in micro-credits. Free credits are those that the balance and the budget
 * of the key allow to spend.
 */
export interface ReserveAmounts {
  /** Price of the shortest answer. With fewer free credits, the chat is rejected. */
  amountMinMicro: number;
  /** Price of an answer of the expected length: reserved if there are enough free credits. */
  amountExpectedMicro: number;
  /** Price of the longest answer: reserved if it is at most the free credits / `freeDivisor`. */
  amountMaxMicro: number;
  freeDivisor: number;
}

/** Organization, API key and end user whose credits are reserved. */
interface Holder {
  organizationId: string;
  keyId: string;
  endUser: string | null;
}

/** Reservation for a chat. */
export interface ChatReserve extends ReserveAmounts {
  id: string;
  organizationId: string;
  /** Rows of the price book that set the prices of the models. */
  priceRows?: readonly string[];
  /** Milliseconds without a checkpoint after which the sweeper settles the chat. */
  ttlMs: number;
  /**
   * Claim of the Idempotency-Key. If another request has taken over the claim, the reservation is
   * rejected.
   */
  claim?: ChatClaim;
  chat: {
    keyId: string;
    /** Browser token of the request; absent if it had an API key. */
    tokenId?: string;
    model: string;
    provider: string;
    streamed: boolean;
    /** True for a request for embeddings. */
    embedding?: true;
    requestId: string;
    metadata?: Record<string, string>;
  };
  /** True for an item of a bulk job, which must still be started with this id. */
  item?: true;
  /** Job whose row is inserted in the same transaction; absent if no workflow runs the chat. */
  job?: Reservation['job'];
}

/** Result of a reservation. `amount`: the reserved micro-credits. */
export type ChatReserveResult = z.infer<typeof chatReserveResult>;
const chatReserveResult = z.discriminatedUnion('verdict', [
  z.object({
    verdict: z.literal('reserved'),
    amount: z.number(),
    state: z.enum(['reserved', 'charged', 'released']),
    balance,
  }),
  insufficientCredits,
  keyLimitExceeded,
  ...endUserRejections,
  jobsMaxReached,
  z.object({ verdict: z.literal('claim_lost') }),
  itemNotStarted,
]);

/** Settlement of a chat. */
export interface ChatSettle {
  organizationId: string;
  id: string;
  to: 'charged' | 'released';
  /**
   * Price in micro-credits, which is charged in full. It may exceed the reservation, because the
   * provider may count more input than the gateway.
   */
  amountMicro: number;
  /** Price of the tokens in the catalog, in micro-credits; null if an older version counted them. */
  costMicro?: number | null;
  /** Rows of the price book that set the price: one or none. */
  priceRows?: readonly string[];
  reason: string;
  inputTokens: number;
  outputTokens: number;
  /** Input tokens that were read from the prompt cache; 0 by default. */
  cachedInputTokens?: number;
  /** Input tokens that were written to the prompt cache; 0 by default. */
  cacheWriteTokens?: number;
  /** Reasoning tokens among the output tokens; 0 by default. */
  reasoningTokens?: number;
  countedBy: 'provider' | 'gateway' | null;
  /** Time from the reservation to the first output of a stream, in milliseconds. */
  firstTokenMs?: number;
  /** Code of the error with which the chat failed. */
  errorCode?: ErrorCode;
  servedBy: ServedBy;
  /** End of the chat's item of a bulk job, which is stored in the same transaction. */
  item?: ChatItemEnd;
  /** End of the chat's job, which is stored in the same transaction. */
  job?: Settlement['job'];
}

/** Answer of an item of a bulk job, as JSON text, or its error. `waits`: the chat can be tried again. */
export type ChatItemEnd =
  | { answer: string }
  | { error: { code: ErrorCode; message: string; waits?: true } };

/** Model and provider that were called most recently for a chat. */
export type ServedBy = { model: string; provider: string };

/** Progress of a running chat. */
export interface ChatProgress {
  id: string;
  servedBy: ServedBy;
  inputTokens: number;
  outputTokens: number;
  /** Price of the input and the delivered output, in micro-credits, and that in the catalog. */
  amountMicro: number;
  costMicro?: number;
  priceRows?: readonly string[];
  /** Time in milliseconds from now until the reservation expires. */
  ttlMs: number;
}

/** Chat that the sweeper has settled. */
const sweptChat = z.object({ id: z.string(), state: z.string(), charged: z.number() });

/** Ledger of chats. */
export interface ChatLedger {
  reserve: (reserve: ChatReserve) => Promise<ChatReserveResult>;
  /** Returns the micro-credits that `reserve` would reserve now; if it rejects, the minimum. */
  price: (holder: Holder, amounts: ReserveAmounts) => Promise<number>;
  settle: (settle: ChatSettle) => Promise<SettleResult>;
  /** Records a chat's progress and extends its reservation. Concurrent calls share a statement. */
  checkpoint: (progress: ChatProgress) => Promise<void>;
  /** Builds the settlement of a chat from its last checkpoint, because its process crashed. */
  readCheckpoint: (id: string) => Promise<Omit<ChatSettle, 'id' | 'organizationId'>>;
  /** Settles the chats of crashed processes, based on their last checkpoints. */
  sweep: (terms: ChatSweep) => Promise<readonly z.infer<typeof sweptChat>[]>;
}

/** Times that determine when the process of a chat is presumed crashed. */
export interface ChatSweep {
  /**
   * Time in milliseconds that the sweeper waits after it first finds a reservation expired. The
   * chat may still be running: while Postgres is unavailable, it cannot record its progress.
   */
  graceMs: number;
  /**
   * Time between sweeps, in milliseconds. If a sweep finds that a grace period ended more than
   * three times this long ago, an outage interrupted the sweeps, and the grace period starts again.
   */
  everyMs: number;
}

const priceRow = z.object({ price: z.number() });
const checkpointRow = z.object({
  amountMicro: z.number(),
  costMicro: z.number().nullable(),
  priceRows: z.array(z.string()),
  inputTokens: z.number(),
  outputTokens: z.number(),
  servedBy: z.object({ model: z.string(), provider: z.string() }),
});
const sweepCountMax = 100;

/** Creates the chat ledger. Command-line tools pass no `metrics`. */
export function createChatLedger(pool: DatabasePool, metrics?: Metrics): ChatLedger {
  const applyOperation = createApplyOperation(pool, { name: 'chat', metrics });
  const checkpoint = createBatcher<ChatProgress, null>({
    name: 'checkpoint',
    metrics,
    sizeMax: 200,
    parallelMax: 1,
    async run(progress) {
      const rows = progress.map(({ amountMicro: amount, priceRows = [], servedBy, ...rest }) => ({
        amount,
        priceRows: [...priceRows],
        ...servedBy,
        ...rest,
      }));
      await pool.query(command`SELECT chat_checkpoint(${sql.jsonb(rows)})`);
      return progress.map(() => null);
    },
  });
  return {
    reserve: ({ id, organizationId, ttlMs, chat, claim, item, job, priceRows = [], ...amounts }) =>
      applyOperation(
        {
          verb: 'reserve',
          ...toPriceFields(null, priceRows),
          ...toReserveFields(amounts),
          id,
          organizationId,
          ttlMs,
          chat,
          ...(claim && { claim: { ...claim } }),
          ...(item && { item }),
          ...(job && { job: asJson(job) }),
        },
        chatReserveResult,
      ),
    price: ({ organizationId, keyId, endUser }, amounts) =>
      pool.oneFirst(sql.type(priceRow)`
        SELECT coalesce(answer->>'amount', answer->>'required')::bigint AS price
        FROM account a, LATERAL (SELECT (decide_reserve(a, NULL,
          ${sql.jsonb(toReserveFields(amounts))}, limited_budgets(${organizationId}, ${keyId}, ${endUser}))).answer) AS decided
        WHERE organization_id = ${organizationId}`),
    async settle({ amountMicro, costMicro: cost = null, priceRows = [], servedBy, job, ...rest }) {
      assert(
        Number.isSafeInteger(amountMicro) && amountMicro >= 0,
        'the charge must be a non-negative integer',
      );
      return applyOperation(
        {
          verb: 'settle',
          amount: amountMicro,
          ...toPriceFields(cost, priceRows),
          ...servedBy,
          ...rest,
          ...(job && { job: asJson(job) }),
        },
        settleResult,
      );
    },
    checkpoint: async (progress) => void (await checkpoint(progress)),
    readCheckpoint: (id) => readCheckpoint(pool, id),
    sweep: (terms) => sweep(pool, terms),
  };
}

async function readCheckpoint(
  pool: DatabasePool,
  id: string,
): ReturnType<ChatLedger['readCheckpoint']> {
  const progress = await pool.one(sql.type(checkpointRow)`
        SELECT checkpoint_micro AS "amountMicro", cost AS "costMicro", coalesce(price_rows, '{}') AS "priceRows", input_tokens AS "inputTokens", output_tokens AS "outputTokens",
          jsonb_build_object('model', model, 'provider', provider) AS "servedBy"
        FROM reservation WHERE id = ${id}`);
  const reason = 'CHAT_LOST';
  if (progress.amountMicro > 0) return { ...progress, to: 'charged', countedBy: 'gateway', reason };
  const none = { inputTokens: 0, outputTokens: 0, countedBy: null };
  return { ...progress, ...none, to: 'released', reason };
}

/** Returns the fields of a ledger operation that define how much it reserves. */
function toReserveFields(amounts: ReserveAmounts) {
  return {
    kind: 'chat',
    amountMin: amounts.amountMinMicro,
    amountExpected: amounts.amountExpectedMicro,
    amountMax: amounts.amountMaxMicro,
    freeDivisor: amounts.freeDivisor,
  };
}

async function sweep(
  pool: DatabasePool,
  { graceMs, everyMs }: ChatSweep,
): ReturnType<ChatLedger['sweep']> {
  const gracePeriod = sql.fragment`${graceMs} * interval '1 millisecond'`;
  const outageMin = sql.fragment`${3 * everyMs} * interval '1 millisecond'`;
  // Starts a grace period for a chat whose reservation is found expired for the first time, or for
  // the first time since the chat recorded progress or an outage ended.
  await pool.query(command`UPDATE reservation
    SET owner_missing_at = now(), expires_at = now() + ${gracePeriod}
    WHERE state = 'reserved' AND kind = 'chat' AND id NOT LIKE 'job\\_%' AND expires_at < now()
      AND (owner_missing_at + ${gracePeriod} IS DISTINCT FROM expires_at
        OR expires_at < now() - ${outageMin})`);
  return pool.any(sql.type(sweptChat)`SELECT id, state, charged FROM chat_sweep(${sweepCountMax})`);
}
