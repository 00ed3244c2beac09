/**
 * Chat: reserve → one upstream call → charge | release, as a direct activity call in the API process
 * (design §6). Nothing is sent upstream before the reservation, and nothing settles later than the
 * sweeper: the order of a chat's life is `open`, then `answer` or `events`, then its end settles it.
 */
import type { ChatModel } from '../../catalog/chat-model.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { Config } from '../../platform/config.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Telemetry } from '../../platform/telemetry.ts';
import { observeUpstreams } from '../providers/observed-providers.ts';
import { createAbandonedChats } from './abandoned-chats.ts';
import type { ChatBody } from './chat-body.ts';
import { createChatLeases } from './chat-leases.ts';
import type { ChatClaim, ChatLedger, ChatReserve } from './chat-ledger.ts';
import { affordableOutput, boundsOf, type ChatBounds } from './chat-price.ts';
import { OpenChat } from './open-chat.ts';
import { createRunningChats } from './running-chats.ts';
import { countInput } from './token-count.ts';
import { createUpstreams } from './upstreams.ts';

/** What a caller asked for. */
export interface ChatOrder {
  /** A new id (domain/ids.ts). */
  id: string;
  organizationId: string;
  keyId: string;
  requestId: string;
  model: ChatModel;
  body: ChatBody;
  /** Most tokens of an answer; null leaves it to the model and the balance. */
  maxTokens: number | null;
  stream: boolean;
  /** The caller's own pairs; null where there are none. */
  metadata: Record<string, string> | null;
  /** Its Idempotency-Key: reserved only while the claim names it, and by itself, not from a lease. */
  claim: ChatClaim | null;
}

/** Opens chats. */
export interface Chat {
  /**
   * Checks the order and reserves its credits.
   * @throws GatewayError UNSUPPORTED_PARAMETER, INSUFFICIENT_CREDITS, TOO_MANY_ABANDONED_CHATS,
   * SERVICE_UNAVAILABLE, and REQUEST_IN_PROGRESS when another request has taken its Idempotency-Key over
   */
  open: (order: ChatOrder) => Promise<OpenChat>;
  /** Gives back the credits that are leased for this organization, but for what runs. */
  recall: (organizationId: string) => void;
  /** Ends once every chat of this process is settled. */
  drained: () => Promise<void>;
  /** Closes the connections upstream. */
  close: () => Promise<void>;
}

interface ChatDeps {
  config: Config;
  ledger: ChatLedger;
  logger: Logger;
  telemetry: Pick<Telemetry, 'metrics' | 'tracing'>;
}

/** What keeps account of the chats of a process, while they run and when they have ended. */
function createKeeping({ config, ledger, logger }: Omit<ChatDeps, 'telemetry'>) {
  const running = createRunningChats({
    ledger,
    logger,
    checkpointMs: config.CHAT_CHECKPOINT_MS,
    reservationTtlMs: config.CHAT_RESERVATION_TTL_MS,
  });
  const leases = createChatLeases({
    ledger,
    logger,
    ttlMs: config.CHAT_LEASE_TTL_MS,
    checkpointMs: config.CHAT_CHECKPOINT_MS,
  });
  const abandoned = createAbandonedChats({
    ledger,
    logger,
    abandonedMax: config.CHAT_ABANDONED_MAX,
  });
  return { running, leases, abandoned };
}

/** See `Chat`. */
export function createChat({ config, ledger, logger, telemetry }: ChatDeps): Chat {
  const upstreams = observeUpstreams(createUpstreams(config), telemetry);
  const { running, leases, abandoned } = createKeeping({ config, ledger, logger });
  const drains = { underWay: 0 };
  const usdPerCredit = config.USD_PER_CREDIT;

  /** Micro-credits that the ledger reserved for this chat alone. */
  async function reserved(reserve: ChatReserve): Promise<number> {
    const verdict = await ledger.reserve(reserve);
    if (verdict.verdict === 'insufficient_credits') throw insufficient(verdict);
    if (verdict.verdict === 'claim_lost') {
      throw new GatewayError('REQUEST_IN_PROGRESS', undefined, { retryAfterSeconds: 1 });
    }
    return verdict.amount;
  }

  return {
    async open(order) {
      const { model, body, stream, organizationId, keyId } = order;
      abandoned.admit(keyId);
      const upstream = upstreams.of(model);
      const request = upstream.protocol.encode({ model, body, stream });
      const input = countInput(body);
      const bounds = boundsOf(
        model,
        { input, maxTokens: order.maxTokens, answers: body.n ?? 1 },
        usdPerCredit,
      );
      const reserve = reserveOf(order, bounds, config.CHAT_RESERVATION_TTL_MS);
      // A lease holds the most that its chats may cost: one that may cost more has a reservation to raise.
      const leased = order.claim || !input.certain ? null : leases.take(reserve);
      const reservedMicro = leased ? bounds.amountMaxMicro : await reserved(reserve);
      const granted = { bounds, amountMicro: reservedMicro };
      request[upstream.protocol.boundField(model)] = affordableOutput(model, granted, usdPerCredit);
      return new OpenChat({
        id: reserve.id,
        organizationId,
        model,
        reservedMicro,
        inputEstimate: Math.min(input.estimate, bounds.inputTokens),
        inputBound: bounds.inputTokens,
        request: JSON.stringify(request),
        stream,
        upstream,
        usdPerCredit,
        funds: leased ?? running,
        certain: input.certain,
        raise: (amountMicro) => ledger.raise({ organizationId, id: reserve.id, amountMicro }),
        abandon: (lostMicro) => abandoned.note({ id: reserve.id, keyId, lostMicro }),
        drains,
        logger,
      });
    },
    recall: leases.recall,
    async drained() {
      await running.drained();
      await leases.close();
    },
    close: upstreams.close,
  };
}

function reserveOf(order: ChatOrder, bounds: ChatBounds, ttlMs: number): ChatReserve {
  const { id, organizationId, keyId, model, stream, requestId, metadata, claim } = order;
  return {
    organizationId,
    id,
    amountMinMicro: bounds.amountMinMicro,
    amountMaxMicro: bounds.amountMaxMicro,
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

function insufficient(verdict: {
  required: number;
  balance: { available: number; reserved: number };
}): GatewayError {
  return new GatewayError('INSUFFICIENT_CREDITS', undefined, {
    body: {
      required: creditsFromMicro(verdict.required),
      available: creditsFromMicro(verdict.balance.available),
      reserved: creditsFromMicro(verdict.balance.reserved),
    },
  });
}
