/**
 * Answers the chats of a bulk job. A chat has no workflow: its row is claimed, and it is reserved and settled as an
 * interactive chat is. Its id belongs to one claim, so a chat that another worker may have sent is never sent
 * again. The end of its item is stored with its settlement.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import pRetry from 'p-retry';
import type { AnsweredChats } from '../domain/bulk-contract.ts';
import { assert, errorTable, GatewayError } from '../domain/errors.ts';
import { parseExact } from '../domain/exact-numbers.ts';
import { escapeSeparators } from '../domain/event-lines.ts';
import { asText } from '../domain/json.ts';
import type { ChatItemEnd, ChatLedger, ChatSettle } from '../chat/chat-ledger.ts';
import { exactFields, type ChatRequest } from '../chat/formats/chat-fields.ts';
import {
  chatUses,
  prepareItemChat,
  type ItemChatServices,
  type PreparedChat,
} from '../chat/item-chats.ts';
import { authorize, type RequestCaller } from '../identity/access.ts';
import { databaseRetries, type DatabasePool } from '../platform/database.ts';
import { correlate, type Logger } from '../platform/logger.ts';
import { createShares, type Shares } from '../platform/shares.ts';
import {
  advanceRows,
  recordStarts,
  toUnstarted,
  type Advanced,
  type NextItem,
  type Unstarted,
} from './bulk-advance.ts';
import { storedItem } from './bulk-items.ts';

/** Services that answer the chats of bulk jobs. */
export interface BulkChatDeps extends ItemChatServices {
  pool: DatabasePool;
  chatLedger: ChatLedger;
  chatPlaces: ChatPlaces;
  logger: Logger;
}

/** Maximum number of chats that are claimed together. */
const claimedTogether = 16;
/** Time for which ends are collected before the next chats are claimed, in milliseconds. */
const collectMs = 20;
/** The same if none of the next chats could start. */
const refusedMs = 500;
/** Time after which chats are tried again if none can be answered now, in milliseconds. */
const retryMs = 1000;
/** Time after which the activity claims no more chats, so that it leaves its slot to others, in milliseconds. */
const claimingMaxMs = 300_000;
/** Maximum time for which the activity waits for its chats after it was stopped, in milliseconds. */
const stopMs = 10_000;

/** Places of the chats of bulk jobs in this process. */
export type ChatPlaces = ReturnType<typeof createChatPlaces>;

/** Creates the places: `placesMax` chats at the same time for each provider, which organizations share. */
export function createChatPlaces(placesMax: number) {
  const places = new Map<string, Shares>();
  /** Times until which a provider is busy for an organization. */
  const busyUntilMs = new Map<string, number>();
  return {
    /**
     * Takes a place of a provider. Returns the function that releases it, or null if the organization has
     * its share of the places.
     * @throws GatewayError SERVICE_UNAVAILABLE if the provider was busy, and its `Retry-After` has not passed
     */
    take(provider: string, organizationId: string): (() => void) | null {
      const owner = `${provider} ${organizationId}`;
      if (performance.now() < (busyUntilMs.get(owner) ?? 0)) {
        throw new GatewayError('SERVICE_UNAVAILABLE', 'The provider of this model is busy.');
      }
      busyUntilMs.delete(owner);
      const shares = places.get(provider) ?? createShares(placesMax);
      places.set(provider, shares);
      return shares.take(organizationId);
    },
    /** Takes no place of a provider for an organization for some time, because the provider is busy. */
    pause(provider: string, organizationId: string, seconds: number): void {
      busyUntilMs.set(`${provider} ${organizationId}`, performance.now() + seconds * 1000);
    },
  };
}

/** State of a run of the activity. */
interface Portion extends AnsweredChats {
  bulkId: string;
  running: Set<Promise<void>>;
  /** Ids of the chats whose reservation the ledger rejected. */
  rejected: string[];
}

/** Answers the waiting chats of a bulk job until none may start, or until `stopped` aborts. */
export async function answerChats(
  deps: BulkChatDeps,
  bulkId: string,
  stopped: AbortSignal,
): Promise<AnsweredChats> {
  const portion: Portion = {
    bulkId,
    running: new Set(),
    rejected: [],
    eventIds: [],
    retryInMs: null,
  };
  const untilStopped = new Promise((resolve) => {
    stopped.addEventListener('abort', resolve, { once: true });
  });
  const claimsUntilMs = performance.now() + claimingMaxMs;
  while (!stopped.aborted) {
    const mayClaim = portion.retryInMs === null && performance.now() < claimsUntilMs;
    const next = mayClaim ? await startChats(deps, portion) : 'none';
    if (next === 'more') continue;
    if (portion.running.size > 0) {
      await Promise.race([...portion.running, untilStopped]);
      await sleep(next === 'refused' ? refusedMs : collectMs);
    } else if (next !== 'started') break;
  }
  // A worker that shuts down waits for the chats that it has sent, but not for long ones.
  if (portion.running.size > 0) {
    await Promise.race([Promise.all(portion.running), sleep(stopMs, undefined, { ref: false })]);
  }
  await countEnds(deps, portion, 0);
  const { eventIds, retryInMs } = portion;
  return { eventIds, retryInMs };
}

/** Counts the chats that have ended, and returns the state of the bulk job with the next chats. */
async function countEnds({ pool }: BulkChatDeps, portion: Portion, itemsMax: number) {
  const { bulkId } = portion;
  const rejected = portion.rejected.splice(0);
  const nothing = { missing: [], lost: [] };
  const state = await advanceRows(pool, { bulkId, rejected, ...nothing, itemsMax, chats: true });
  if (state.eventId !== null) portion.eventIds.push(state.eventId);
  return state;
}

/**
 * Claims the next chats and begins to answer them. Returns `more` if others may start at once,
 * `refused` if none of them could start, and `none` if there are none.
 */
async function startChats(
  deps: BulkChatDeps,
  portion: Portion,
): Promise<'more' | 'started' | 'refused' | 'none'> {
  const { caller, items, pausedProviders, requestId, pricedAtMs } = await countEnds(
    deps,
    portion,
    claimedTogether,
  );
  if (!caller || items.length === 0) return 'none';
  correlate({ organizationId: caller.organizationId, requestId });
  const sender = { caller, requestId, pausedProviders, pricedAtMs };
  const results = await Promise.all(
    items.map((item) =>
      claimPlace(deps, item, sender).catch((error: unknown) => toUnstarted(deps, item, error)),
    ),
  );
  const decided = results.filter((result) => result !== null);
  const claims = decided.filter((result): result is ClaimedChat => 'release' in result);
  const unstarted = decided.filter((result): result is Unstarted => 'canWait' in result);
  const starts = claims.map(({ index, jobId, chat: { priceMicro: price } }) => ({
    index,
    jobId,
    price,
  }));
  const started = await recordStarts(deps.pool, portion.bulkId, { starts, unstarted }).catch(
    (error: unknown) => {
      for (const { release } of claims) release();
      throw error;
    },
  );
  for (const claim of claims) {
    if (!started.has(claim.index)) {
      claim.release();
      continue;
    }
    const running = runChat(deps, portion, claim).finally(() => {
      claim.release();
      portion.running.delete(running);
    });
    portion.running.add(running);
  }
  if (started.size === claimedTogether) return 'more';
  // Items that were postponed before wait for a while; others are behind them.
  const isFirst = items.some(({ postponed }) => postponed === 0);
  if (started.size > 0 || (unstarted.length > 0 && isFirst)) return 'started';
  if (portion.running.size === 0) portion.retryInMs = retryMs;
  return 'refused';
}

/** Bulk job of a chat, as the chat is prepared. */
interface Sender extends Pick<Advanced, 'requestId' | 'pausedProviders' | 'pricedAtMs'> {
  caller: RequestCaller;
}

/** Chat that has a place of its provider. */
interface ClaimedChat {
  index: number;
  jobId: string;
  type: string;
  caller: RequestCaller;
  requestId: string;
  request: ChatRequest;
  chat: PreparedChat;
  provider: string;
  /** Releases the place. */
  release: () => void;
}

/**
 * Prepares a chat and takes a place of its provider for it. Returns null if the organization has its
 * share of the places.
 * @throws GatewayError like the endpoint, before it reserves credits
 */
async function claimPlace(
  deps: BulkChatDeps,
  { jobId, ...item }: NextItem,
  sender: Sender,
): Promise<ClaimedChat | null> {
  const { caller, requestId, pausedProviders, pricedAtMs } = sender;
  const { index, type, request: stored, metadata } = storedItem.parse(item);
  authorize(caller, 'chat');
  // oxlint-disable-next-line no-unsafe-type-assertion -- the text was written by `priceItem`
  const parsed = parseExact(asText(stored['chat']), exactFields) as ChatRequest;
  const request = { ...parsed, metadata };
  const prepared = await prepareItemChat(
    findUse(type),
    { request, caller, requestId, pricedAtMs },
    deps,
  );
  const { provider, chat } = prepared;
  if (pausedProviders.includes(provider)) {
    throw new GatewayError('SERVICE_UNAVAILABLE', `The provider ${provider} is paused.`);
  }
  const release = deps.chatPlaces.take(provider, caller.organizationId);
  if (!release) return null;
  return { index, jobId, type, caller, requestId, request, chat, provider, release };
}

function findUse(type: string) {
  const use = chatUses.get(type);
  if (!use) throw new GatewayError('SERVICE_UNAVAILABLE', `This gateway has no ${type}.`);
  return use;
}

/** Reserves, answers and settles a chat. */
async function runChat(deps: BulkChatDeps, portion: Portion, claim: ClaimedChat): Promise<void> {
  const { jobId: id, chat, caller } = claim;
  const { organizationId } = caller;
  try {
    const reserved = await pRetry(() => chat.reserve(id), databaseRetries);
    if (reserved.verdict === 'item_not_started') return;
    if (reserved.verdict !== 'reserved') {
      portion.rejected.push(id);
      portion.retryInMs ??= retryMs;
      return;
    }
    // A reservation that was settled meanwhile pays for nothing.
    if (reserved.state !== 'reserved') return;
    const { settlement, item, busySeconds } = await answerChat(deps, claim, reserved.amount);
    if (busySeconds !== null) deps.chatPlaces.pause(claim.provider, organizationId, busySeconds);
    const settle = { ...settlement, organizationId, id, item };
    await pRetry(() => deps.chatLedger.settle(settle), databaseRetries);
  } catch (error) {
    // The sweeper settles the chat, and its item fails.
    deps.logger.error({ error, chatId: id }, 'bulk.chat_failed');
  }
}

/** Answer of a chat that is not settled yet. */
interface Answered {
  settlement: ChatSettle;
  item: ChatItemEnd;
  /** Seconds until the provider may be called again; null if it was not busy. */
  busySeconds: number | null;
}

/** Calls the provider. The chat is settled together with its answer. */
async function answerChat(
  { logger }: BulkChatDeps,
  { jobId: id, type, chat, request, requestId }: ClaimedChat,
  reservedMicro: number,
): Promise<Answered> {
  let settlement: ChatSettle | null = null;
  const { run, answer } = chat.answer({
    id,
    reservedMicro,
    settle(settled) {
      settlement = settled;
      return Promise.resolve(settled.amountMicro);
    },
  });
  const getSettlement = (): ChatSettle => {
    assert(settlement, 'the answer has ended without a settlement');
    return settlement;
  };
  try {
    const answered = await answer();
    assert(run.bill, 'the chat has ended without a bill');
    const text = findUse(type)
      .presentation()
      .body({ chat: run, request, requestId }, answered, run.bill);
    // Files of batches contain the text as it is stored (batch-files.ts).
    const stored = escapeSeparators(text);
    return { settlement: getSettlement(), item: { answer: stored }, busySeconds: null };
  } catch (error) {
    const settled = getSettlement();
    const isKnown = error instanceof GatewayError;
    if (!isKnown) logger.error({ error, chatId: id }, 'bulk.chat_failed');
    const code = isKnown ? error.code : 'Internal server error';
    const message = isKnown ? error.message : errorTable[code].message;
    // A busy or unreachable provider has certainly not accepted the chat.
    const waits =
      isKnown &&
      settled.to === 'released' &&
      run.unknownCostMicro === null &&
      (code === 'SERVICE_UNAVAILABLE' || error.status === 429);
    const failed = { code, message, ...(waits && { waits: true as const }) };
    const busySeconds = waits ? (error.retryAfterSeconds ?? 1) : null;
    return { settlement: settled, item: { error: failed }, busySeconds };
  }
}
