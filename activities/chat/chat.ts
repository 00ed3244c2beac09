/**
 * Chat: reserve → one upstream call → charge | release, as a direct activity call in the API process
 * (design §6). Nothing is sent upstream before the reservation, and nothing settles later than the
 * sweeper: the order of a chat's life is `open`, then `answer` or `events`, then its end settles it.
 */
import type { ChatModel } from '../../catalog/chat-model.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { Config } from '../../platform/config.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Telemetry } from '../../platform/telemetry.ts';
import { throwRefusal } from '../ledger/refusals.ts';
import { observeUpstreams } from '../providers/observed-providers.ts';
import { createAbandonedChats, createRunningChats } from './running-chats.ts';
import type { ChatBody } from './chat-body.ts';
import { draftCandidates, type CandidatesDraft } from './chat-candidates.ts';
import type { ChatClaim, ChatLedger, ChatReserve } from './chat-ledger.ts';
import { chatPriceMicro, countInput } from './chat-price.ts';
import { OpenChat } from './open-chat.ts';
import { createUpstreams } from './upstreams.ts';

/** What a caller asked for. */
export interface ChatOrder {
  organizationId: string;
  keyId: string;
  requestId: string;
  /** In the order in which they are asked. */
  models: readonly [ChatModel, ...ChatModel[]];
  body: ChatBody;
  /** Most tokens of an answer; null leaves it to the model and the balance. */
  maxTokens: number | null;
  stream: boolean;
  /** The caller's own pairs; null where there are none. */
  metadata: Record<string, string> | null;
}

/** What an opened chat stands under. */
interface ChatIdentity {
  /** A new id (domain/ids.ts). */
  id: string;
  /** Its Idempotency-Key: reserved only while the claim names it. */
  claim: ChatClaim | null;
}

/** What a chat would reserve. */
export interface ChatEstimate {
  /** Micro-credits: now; at least; and at most, where the balance has that much. */
  reserveMicro: number;
  leastMicro: number;
  mostMicro: number;
  /** Tokens that the most is made of, of the dearest model, and their micro-credits. */
  parts: { unit: 'input token' | 'output token'; tokens: number; amountMicro: number }[];
}

interface ChatDeps {
  config: Config;
  ledger: ChatLedger;
  logger: Logger;
  telemetry: Pick<Telemetry, 'metrics'>;
}

/** Opens chats. */
export function createChat({ config, ledger, logger, telemetry }: ChatDeps) {
  const upstreams = observeUpstreams(createUpstreams(config), telemetry);
  const running = createRunningChats({
    ledger,
    logger,
    checkpointMs: config.CHAT_CHECKPOINT_MS,
    reservationTtlMs: config.CHAT_RESERVATION_TTL_MS,
  });
  const abandonedMax = config.CHAT_ABANDONED_MAX;
  const abandoned = createAbandonedChats({ ledger, logger, abandonedMax });
  const drains = { underWay: 0 };
  const usdPerCredit = config.USD_PER_CREDIT;

  /** The upstreams' requests, what they count and what that may cost. */
  function measured({ models, body, stream, maxTokens }: ChatOrder) {
    const input = countInput(body);
    const asked = { body, stream, maxTokens, input };
    return { input, draft: draftCandidates(models, asked, { upstreams, usdPerCredit }) };
  }

  return {
    /**
     * Checks the order and reserves its credits.
     * @throws GatewayError UNSUPPORTED_PARAMETER, INSUFFICIENT_CREDITS, KEY_LIMIT_EXCEEDED, TOO_MANY_ABANDONED_CHATS,
     * SERVICE_UNAVAILABLE, and REQUEST_IN_PROGRESS when another request has taken its Idempotency-Key over
     */
    async open(order: ChatOrder, { id, claim }: ChatIdentity): Promise<OpenChat> {
      const { stream, organizationId, keyId } = order;
      abandoned.admit(keyId);
      const { input, draft } = measured(order);
      const ttlMs = config.CHAT_RESERVATION_TTL_MS;
      const reserve = reserveOf(order, { id, claim, ttlMs }, draft);
      const reservedMicro = await reserved(ledger, reserve);
      return new OpenChat({
        id,
        organizationId,
        candidates: draft.grant(reservedMicro),
        reservedMicro,
        stream,
        usdPerCredit,
        running,
        certain: input.certain,
        raise: (amountMicro) => ledger.raise({ organizationId, id, amountMicro }),
        abandon: (lostMicro) => abandoned.note({ id, keyId, lostMicro }),
        drains,
        logger,
      });
    },
    /** What a chat would reserve now. @throws GatewayError UNSUPPORTED_PARAMETER, SERVICE_UNAVAILABLE */
    async estimate(order: ChatOrder): Promise<ChatEstimate> {
      const { amountMinMicro, amountMaxMicro, dearest } = measured(order).draft;
      const { organizationId, keyId } = order;
      return {
        reserveMicro: await ledger.price({ organizationId, keyId, amountMinMicro, amountMaxMicro }),
        leastMicro: amountMinMicro,
        mostMicro: amountMaxMicro,
        parts: partsOf(dearest, usdPerCredit),
      };
    },
    /** Ends once every chat of this process is settled. */
    drained: running.drained,
    /** Closes the connections upstream. */
    close: upstreams.close,
  };
}
/** See `createChat`. */
export type Chat = ReturnType<typeof createChat>;

/** Micro-credits that the ledger reserved. */
async function reserved(ledger: ChatLedger, reserve: ChatReserve): Promise<number> {
  const verdict = await ledger.reserve(reserve);
  if (verdict.verdict === 'reserved') return verdict.amount;
  if (verdict.verdict !== 'claim_lost') throwRefusal(verdict);
  throw new GatewayError('REQUEST_IN_PROGRESS', undefined, { retryAfterSeconds: 1 });
}

function reserveOf(
  order: ChatOrder,
  { id, claim, ttlMs }: ChatIdentity & { ttlMs: number },
  draft: CandidatesDraft,
): ChatReserve {
  const { organizationId, keyId, models, stream, requestId, metadata } = order;
  const [model] = models;
  return {
    organizationId,
    id,
    amountMinMicro: draft.amountMinMicro,
    amountMaxMicro: draft.amountMaxMicro,
    ttlMs,
    ...(claim && { claim: { key: claim.key, attempt: claim.attempt } }),
    chat: {
      keyId,
      model: model.id,
      provider: model.provider,
      streamed: stream,
      requestId,
      ...(metadata && { metadata }),
    },
  };
}

function partsOf(
  { model, bounds }: CandidatesDraft['dearest'],
  usdPerCredit: number,
): ChatEstimate['parts'] {
  const { inputTokens, amountMaxMicro } = bounds;
  const outputTokens = bounds.outputTokensMax * bounds.answers;
  const inputMicro = chatPriceMicro(model, { inputTokens, outputTokens: 0 }, usdPerCredit);
  return [
    { unit: 'input token', tokens: inputTokens, amountMicro: inputMicro },
    // Both are rounded up together, once.
    { unit: 'output token', tokens: outputTokens, amountMicro: amountMaxMicro - inputMicro },
  ];
}
