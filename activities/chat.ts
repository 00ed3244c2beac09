/**
 * Chat: reserve → one call to a provider → charge | release, as a direct activity call in the API
 * process (design §6). `open` reserves credits before a request is sent, and the end of `answer` or
 * `stream` settles them. The sweeper settles the chats of a process that has crashed.
 */
import type { ChatModel } from '../catalog/chat-model.ts';
import { GatewayError } from '../domain/errors.ts';
import type { Config } from '../platform/config.ts';
import type { Logger } from '../platform/logger.ts';
import type { Telemetry } from '../platform/telemetry.ts';
import { throwRefusal } from '../ledger/refusals.ts';
import { ObservedChat, observeUpstreams } from '../chat/observed-chat.ts';
import { RunningChats } from '../chat/running-chats.ts';
import type { ChatBody } from '../chat/chat-body.ts';
import { draftCandidates, type CandidatesDraft } from '../chat/chat-candidates.ts';
import type { ChatClaim, ChatLedger, ChatReserve } from '../chat/chat-moves.ts';
import { chatPriceMicro } from '../chat/chat-price.ts';
import { countInput } from '../chat/input-count.ts';
import type { OpenChat } from '../chat/open-chat.ts';
import { createUpstreams } from '../chat/upstreams.ts';

/** Chat request of a caller. */
export interface ChatOrder {
  organizationId: string;
  keyId: string;
  requestId: string;
  /** Models in the order in which they are called. */
  models: readonly [ChatModel, ...ChatModel[]];
  body: ChatBody;
  /** Highest number of tokens of an answer; null: the limit of the model and the balance. */
  maxTokens: number | null;
  stream: boolean;
  /** The caller's metadata; null if there is none. */
  metadata: Record<string, string> | null;
}

/** Id of a chat, and its Idempotency-Key. */
interface ChatIdentity {
  /** A new id (domain/ids.ts). */
  id: string;
  /**
   * Claim of the Idempotency-Key; null without a key. Credits are reserved only if this request
   * still holds the claim.
   */
  claim: ChatClaim | null;
}

/** Estimated price of a chat, in micro-credits. */
export interface ChatEstimate {
  /**
   * Amount that would be reserved now. The chat is rejected if less than `leastMicro` is available.
   */
  reserveMicro: number;
  leastMicro: number;
  /** Highest possible charge. */
  mostMicro: number;
  /** Tokens of the highest possible charge. */
  parts: { unit: 'input token' | 'output token'; tokens: number; amountMicro: number }[];
}

interface ChatDeps {
  config: Config;
  ledger: ChatLedger;
  logger: Logger;
  telemetry: Pick<Telemetry, 'metrics'>;
}

/** Makes the chat service of a process. */
export function createChat({ config, ledger, logger, telemetry }: ChatDeps) {
  const upstreams = observeUpstreams(createUpstreams(config), telemetry);
  const running = new RunningChats({
    ledger,
    logger,
    checkpointMs: config.CHAT_CHECKPOINT_MS,
    reservationTtlMs: config.CHAT_RESERVATION_TTL_MS,
  });
  const usdPerCredit = config.USD_PER_CREDIT;
  const answerTokensExpected = config.CHAT_EXPECTED_ANSWER_TOKENS;
  const context = { upstreams, usdPerCredit, answerTokensExpected };

  const draftOf = ({ models, body, stream, maxTokens }: ChatOrder): CandidatesDraft =>
    draftCandidates(models, { body, stream, maxTokens, input: countInput(body) }, context);

  return {
    /**
     * Checks the order and reserves its credits.
     * @throws GatewayError UNSUPPORTED_PARAMETER, INSUFFICIENT_CREDITS, KEY_LIMIT_EXCEEDED,
     * SERVICE_UNAVAILABLE, and REQUEST_IN_PROGRESS if another request has taken over the
     * Idempotency-Key
     */
    async open(order: ChatOrder, identity: ChatIdentity): Promise<OpenChat> {
      const draft = draftOf(order);
      const ttlMs = config.CHAT_RESERVATION_TTL_MS;
      const payableMicro = await reserve(ledger, reserveOf(order, { ...identity, ttlMs }, draft));
      return new ObservedChat({
        ...order,
        id: identity.id,
        candidates: draft.grant(payableMicro),
        usdPerCredit,
        running,
        metrics: telemetry.metrics,
        logger,
        priceMarkup: config.CHAT_PRICE_MARKUP,
      });
    },
    /**
     * Estimates the price of a chat.
     * @throws GatewayError UNSUPPORTED_PARAMETER, SERVICE_UNAVAILABLE
     */
    async estimate(order: ChatOrder): Promise<ChatEstimate> {
      const draft = draftOf(order);
      const { amountMinMicro, amountMaxMicro } = draft;
      const { organizationId, keyId } = order;
      const parts = partsOf(draft.dearest(), usdPerCredit);
      return {
        reserveMicro: await ledger.price({ organizationId, keyId, amountMinMicro, amountMaxMicro }),
        leastMicro: amountMinMicro,
        mostMicro: parts.reduce((sum, { amountMicro }) => sum + amountMicro, 0),
        parts,
      };
    },
    /** Resolves when every chat of this process is settled. */
    drained: () => running.drained(),
    /** Closes the connections to providers. */
    close: upstreams.close,
  };
}
/** Chat service of a process. */
export type Chat = ReturnType<typeof createChat>;

/**
 * Reserves the credits of a chat. Returns the total in micro-credits that the balance and the key's
 * budget can pay for the chat.
 */
async function reserve(ledger: ChatLedger, reservation: ChatReserve): Promise<number> {
  const verdict = await ledger.reserve(reservation);
  if (verdict.verdict === 'reserved') return verdict.payable;
  if (verdict.verdict !== 'claim_lost') throwRefusal(verdict);
  throw new GatewayError('REQUEST_IN_PROGRESS', undefined, { retryAfterSeconds: 1 });
}

function reserveOf(
  { organizationId, keyId, models: [first], stream, requestId, metadata }: ChatOrder,
  { id, claim, ttlMs }: ChatIdentity & { ttlMs: number },
  { amountMinMicro, amountMaxMicro }: CandidatesDraft,
): ChatReserve {
  const { id: model, provider } = first;
  return {
    organizationId,
    id,
    amountMinMicro,
    amountMaxMicro,
    ttlMs,
    ...(claim && { claim: { key: claim.key, attempt: claim.attempt } }),
    chat: { keyId, model, provider, streamed: stream, requestId, ...(metadata && { metadata }) },
  };
}

function partsOf(
  { model, usageMax }: ReturnType<CandidatesDraft['dearest']>,
  usdPerCredit: number,
): ChatEstimate['parts'] {
  const { inputTokens, outputTokens } = usageMax;
  const inputMicro = chatPriceMicro(model, { ...usageMax, outputTokens: 0 }, usdPerCredit);
  const totalMicro = chatPriceMicro(model, usageMax, usdPerCredit);
  return [
    { unit: 'input token', tokens: inputTokens, amountMicro: inputMicro },
    // The sum of input and output is rounded up, not each part.
    { unit: 'output token', tokens: outputTokens, amountMicro: totalMicro - inputMicro },
  ];
}
