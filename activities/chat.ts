/**
 * Runs chats: reserve → one provider call → charge | release. The API process calls these functions
 * directly, without Temporal (docs/architecture.md). `open` reserves the credits of a chat; its
 * methods `answer` and `stream` settle them. If the process crashes, the sweeper settles its chats.
 */
import { splitEndUser } from '../domain/end-users.ts';
import { GatewayError } from '../domain/errors.ts';
import type { Config } from '../platform/config.ts';
import type { Logger } from '../platform/logger.ts';
import type { Telemetry } from '../platform/telemetry.ts';
import { throwRejection } from '../ledger/ledger.ts';
import { recordChat, observeUpstreams, type AnsweringChat } from '../chat/chat-telemetry.ts';
import { ChatCheckpoints } from '../chat/chat-checkpoints.ts';
import type { ChatEstimate, ChatOrder } from '../chat/orders.ts';
import { createCandidatesDraft, type CandidatesDraft } from '../chat/candidates.ts';
import type { PreparedChat, ReservedChat } from '../chat/item-chats.ts';
import type { ChatClaim, ChatLedger, ChatReserve, ChatReserveResult } from '../chat/chat-ledger.ts';
import type { ChatRunParts } from '../chat/chat-run.ts';
import { calculateChatPrice } from '../chat/bill.ts';
import { estimateInput } from '../chat/input-count.ts';
import { createUpstreams } from '../chat/upstreams.ts';

/** Id of a chat, and the claim of its Idempotency-Key. */
interface ChatIdentity {
  /** New id of the chat (domain/ids.ts). */
  id: string;
  /**
   * Claim of the Idempotency-Key; null if the request has no key. Credits are reserved only if no
   * other request has taken over the claim.
   */
  claim: ChatClaim | null;
}

/** Id and candidates of a run, and its checkpoints; by default those of the process. */
type BegunRun = Pick<ChatRunParts, 'id' | 'candidates'> &
  Partial<Pick<ChatRunParts, 'checkpoints'>>;

interface ChatDeps {
  config: Config;
  ledger: ChatLedger;
  logger: Logger;
  telemetry: Pick<Telemetry, 'metrics'>;
}

/** Creates the chat service of a process. */
export function createChat({ config, ledger, logger, telemetry }: ChatDeps) {
  const upstreams = observeUpstreams(createUpstreams(config), telemetry);
  const checkpoints = new ChatCheckpoints({
    ledger,
    logger,
    checkpointMs: config.CHAT_CHECKPOINT_MS,
    reservationTtlMs: config.CHAT_RESERVATION_TTL_MS,
  });
  const usdPerCredit = config.USD_PER_CREDIT;
  const answerTokensExpected = config.CHAT_EXPECTED_ANSWER_TOKENS;
  const context = { upstreams, usdPerCredit, answerTokensExpected };

  const draftCandidates = ({ models, body, stream, maxTokens }: ChatOrder): CandidatesDraft =>
    createCandidatesDraft(models, { body, stream, maxTokens, input: estimateInput(body) }, context);

  const begin = (order: ChatOrder, run: BegunRun): AnsweringChat =>
    recordChat({
      ...order,
      usdPerCredit,
      checkpoints,
      answerTimeoutMs: config.CHAT_ANSWER_TIMEOUT_MS,
      metrics: telemetry.metrics,
      logger,
      ...run,
    });

  return {
    /**
     * Checks a chat request and reserves its credits.
     * @throws GatewayError UNSUPPORTED_PARAMETER, INSUFFICIENT_CREDITS, KEY_LIMIT_EXCEEDED,
     * SERVICE_UNAVAILABLE, and REQUEST_IN_PROGRESS if another request has taken over the
     * Idempotency-Key
     */
    async open(order: ChatOrder, identity: ChatIdentity): Promise<AnsweringChat> {
      const candidates = draftCandidates(order);
      const ttlMs = config.CHAT_RESERVATION_TTL_MS;
      const reservation = buildReservation(order, { ...identity, ttlMs }, candidates);
      const reservedMicro = await reserve(ledger, reservation);
      return begin(order, { id: identity.id, candidates: candidates.limitTo(reservedMicro) });
    },
    ...createReservedChats({ config, ledger, checkpoints, draftCandidates, begin }),
    /** Checks that the models support a request. @throws GatewayError like `open`, before it reserves */
    check: (order: ChatOrder): void => void draftCandidates(order),
    /**
     * Estimates the price of a chat.
     * @throws GatewayError UNSUPPORTED_PARAMETER, SERVICE_UNAVAILABLE
     */
    async estimate(order: ChatOrder): Promise<ChatEstimate> {
      const candidates = draftCandidates(order);
      const { amounts } = candidates;
      const { organizationId, keyId } = order;
      const { endUser } = splitEndUser(order.metadata);
      return {
        reserveMicro: await ledger.price({ organizationId, keyId, endUser }, amounts),
        reserveMinMicro: amounts.amountMinMicro,
        chargeMaxMicro: calculateChargeMax(candidates, usdPerCredit),
        parts: splitCharge(candidates.findMostExpensive(), usdPerCredit),
      };
    },
    /** Waits until every chat of this process is settled. */
    waitUntilIdle: () => checkpoints.waitUntilIdle(),
    /** Closes the connections to providers. */
    close: upstreams.close,
  };
}
export type ChatService = ReturnType<typeof createChat>;

interface ReservedChatDeps extends Pick<ChatDeps, 'config' | 'ledger'> {
  checkpoints: ChatCheckpoints;
  draftCandidates: (order: ChatOrder) => CandidatesDraft;
  begin: (order: ChatOrder, run: BegunRun) => AnsweringChat;
}

/** Creates the functions of chats that jobs, and items of bulk jobs, reserve and settle. */
function createReservedChats(deps: ReservedChatDeps) {
  const { config, ledger, checkpoints, draftCandidates, begin } = deps;
  /** Begins the answer of a chat that its caller settles. */
  const beginReserved = (
    order: ChatOrder,
    draft: CandidatesDraft,
    { id, reservedMicro, settle }: ReservedChat,
  ): AnsweringChat =>
    begin(order, {
      id,
      candidates: draft.limitTo(reservedMicro),
      checkpoints: {
        add: (chat) => checkpoints.add(chat),
        advanceCheckpoint: (chat) => checkpoints.advanceCheckpoint(chat),
        settle: (chat, settlement) => {
          checkpoints.stop(chat);
          return settle(settlement);
        },
      },
    });
  return {
    /**
     * Prepares the chat of an item of a bulk job.
     * @throws GatewayError like `open`, before it reserves
     */
    prepare(order: ChatOrder): PreparedChat {
      const draft = draftCandidates(order);
      const ttlMs = config.CHAT_RESERVATION_TTL_MS;
      return {
        leastMicro: draft.amounts.amountMinMicro,
        priceMicro: calculateChargeMax(draft, config.USD_PER_CREDIT),
        reserve: (id) =>
          ledger.reserve({
            ...buildReservation(order, { id, claim: null, ttlMs }, draft),
            item: true,
          }),
        answer: (reserved) => beginReserved(order, draft, reserved),
      };
    },
    /** Reserves the credits of a chat job, and stores the job. A repeat changes nothing. */
    reserveJob: (
      order: ChatOrder,
      { id, ttlMs, job }: { id: string; ttlMs: number; job: NonNullable<ChatReserve['job']> },
    ): Promise<ChatReserveResult> => {
      const identity = { id, claim: null, ttlMs };
      return ledger.reserve({ ...buildReservation(order, identity, draftCandidates(order)), job });
    },
    /** Begins the answer of a chat job whose credits are reserved. */
    answerReserved: (order: ChatOrder, reserved: ReservedChat): AnsweringChat =>
      beginReserved(order, draftCandidates(order), reserved),
  };
}

/** Reserves the credits of a chat. Returns the reserved micro-credits. */
async function reserve(ledger: ChatLedger, reservation: ChatReserve): Promise<number> {
  const result = await ledger.reserve(reservation);
  if (result.verdict === 'reserved') return result.amount;
  if (result.verdict !== 'claim_lost') throwRejection(result);
  throw new GatewayError('REQUEST_IN_PROGRESS', undefined, { retryAfterSeconds: 1 });
}

function buildReservation(
  { organizationId, keyId, tokenId, models: [first], stream, requestId, metadata, body }: ChatOrder,
  { id, claim, ttlMs }: ChatIdentity & { ttlMs: number },
  { amounts, priceRows }: CandidatesDraft,
): ChatReserve {
  const { id: model, provider } = first;
  return {
    organizationId,
    id,
    ...amounts,
    priceRows,
    ttlMs,
    ...(claim && { claim: { key: claim.key, holder: claim.holder } }),
    chat: {
      keyId,
      ...(tokenId !== undefined && { tokenId }),
      model,
      provider,
      streamed: stream,
      requestId,
      ...(body.embedding && { embedding: true }),
      ...(metadata && { metadata }),
    },
  };
}

/** Returns the maximum charge of a chat, in micro-credits. */
function calculateChargeMax(draft: CandidatesDraft, usdPerCredit: number): number {
  const { model, usageMax } = draft.findMostExpensive();
  return calculateChatPrice(model, usageMax, usdPerCredit);
}

function splitCharge(
  { model, usageMax }: ReturnType<CandidatesDraft['findMostExpensive']>,
  usdPerCredit: number,
): ChatEstimate['parts'] {
  const { inputTokens, outputTokens } = usageMax;
  const inputMicro = calculateChatPrice(model, { ...usageMax, outputTokens: 0 }, usdPerCredit);
  const totalMicro = calculateChatPrice(model, usageMax, usdPerCredit);
  const parts: ChatEstimate['parts'] = [
    { unit: 'input token', tokens: inputTokens, amountMicro: inputMicro },
    // Only the total price is rounded up, so the output tokens get the rest of it.
    { unit: 'output token', tokens: outputTokens, amountMicro: totalMicro - inputMicro },
  ];
  // Embeddings have no output tokens.
  return parts.filter(({ tokens }) => tokens > 0);
}
