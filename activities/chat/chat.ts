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
import { observeUpstreams } from '../observed/observed-providers.ts';
import type { ChatBody } from './chat-body.ts';
import type { ChatLedger } from './chat-ledger.ts';
import { affordableOutput, boundsOf } from './chat-price.ts';
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
}

/** Opens chats. */
export interface Chat {
  /**
   * Checks the order and reserves its credits.
   * @throws GatewayError UNSUPPORTED_PARAMETER, INSUFFICIENT_CREDITS, SERVICE_UNAVAILABLE
   */
  open: (order: ChatOrder) => Promise<OpenChat>;
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

/** See `Chat`. */
export function createChat({ config, ledger, logger, telemetry }: ChatDeps): Chat {
  const upstreams = observeUpstreams(createUpstreams(config), telemetry);
  const running = createRunningChats({
    ledger,
    logger,
    checkpointMs: config.CHAT_CHECKPOINT_MS,
    reservationTtlMs: config.CHAT_RESERVATION_TTL_MS,
  });
  const drains = { underWay: 0 };
  const usdPerCredit = config.USD_PER_CREDIT;

  return {
    async open(order) {
      const { id, model, body, stream, organizationId } = order;
      const upstream = upstreams.of(model);
      const request = upstream.protocol.encode({ model, body, stream });
      const input = countInput(body);
      const bounds = boundsOf(
        model,
        { input, maxTokens: order.maxTokens, answers: body.n ?? 1 },
        usdPerCredit,
      );
      const verdict = await ledger.reserve({
        organizationId,
        id,
        amountMinMicro: bounds.amountMinMicro,
        amountMaxMicro: bounds.amountMaxMicro,
        ttlMs: config.CHAT_RESERVATION_TTL_MS,
        chat: {
          keyId: order.keyId,
          model: model.id,
          provider: model.provider,
          streamed: stream,
          requestId: order.requestId,
        },
      });
      if (verdict.verdict === 'insufficient_credits') throw insufficient(verdict);
      const granted = { bounds, amountMicro: verdict.amount };
      request[upstream.protocol.boundField(model)] = affordableOutput(model, granted, usdPerCredit);
      return new OpenChat({
        id,
        organizationId,
        model,
        reservedMicro: verdict.amount,
        inputEstimate: Math.min(input.estimate, bounds.inputTokens),
        request: JSON.stringify(request),
        stream,
        upstream,
        usdPerCredit,
        running,
        drains,
        logger,
      });
    },
    drained: running.drained,
    close: upstreams.close,
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
