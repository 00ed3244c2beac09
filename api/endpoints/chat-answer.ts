/**
 * Answers a chat request (spec §4.1): claims the Idempotency-Key, reserves credits, and sends the
 * answer as one body or as a stream.
 */
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ChatRun } from '../../chat/chat-run.ts';
import type { AnsweringChat } from '../../chat/chat-telemetry.ts';
import { listIgnoredHints } from '../../chat/protocols/hints.ts';
import { listIgnoredReasoning } from '../../chat/protocols/reasoning-options.ts';
import { assert, GatewayError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { Config } from '../../platform/config.ts';
import type { Composition } from '../composition.ts';
import type { ChatContext, Presentation } from '../../chat/formats/completions-answer.ts';
import { checkModels, completeOrder, type ChatOrder } from '../../chat/orders.ts';
import type { ChatRequest } from '../../chat/formats/chat-fields.ts';
import {
  createEventStream,
  eventStreamType,
  ReaderDisconnected,
  type EventStream,
} from '../http/event-stream.ts';
import { ignoredFieldsHeader } from '../http/ignored-fields.ts';
import { sendKeptAlive, unbuffered, type KeptAnswer } from '../http/kept-answer.ts';
import type { Context } from '../context.ts';
import { parseIdempotencyKey } from '../http/request-headers.ts';
import type { HeldClaim, UsedKey } from '../../ledger/claims.ts';
import { toShownError } from '../middleware/error-handler.ts';
import { withRenamedFields } from './openai/field-names.ts';

type Services = Pick<
  Composition,
  | 'chat'
  | 'chatCatalog'
  | 'priceBook'
  | 'outbound'
  | 'inputs'
  | 'storage'
  | 'claims'
  | 'config'
  | 'logger'
  | 'telemetry'
>;

/** Chat that was opened for a request, with the claim of the request's Idempotency-Key. */
interface AnsweredChat extends ChatContext, Pick<AnsweringChat, 'answer' | 'stream'> {
  chat: ChatRun;
  /** Claim of the request's Idempotency-Key, with which the answer is stored for replays. */
  claim: HeldClaim;
  models: ChatOrder['models'];
  /** Records the time from the request to the first output of the stream. */
  firstToken: (labels: { provider: string }) => unknown;
}

const jsonType = 'application/json; charset=utf-8';

/** Format of an endpoint's answers. */
export interface AnswerFormat {
  presentation: Presentation;
  /** Converts a field name of the internal request to the endpoint's own. */
  rename: (path: string) => string;
}

/** Call of a chat endpoint. */
interface ChatCall {
  ctx: Context;
  body: ChatRequest;
}

/** Begins a chat and sends its answer, as one body or as a stream. */
export async function answerChat(
  call: ChatCall,
  format: AnswerFormat,
  services: Services,
): Promise<void> {
  const { ctx, body: request } = call;
  const { config, logger } = services;
  if (!request.stream) {
    const answer = withRenamedFields(() => completeChat(call, format, services), format.rename);
    await sendKeptAlive(ctx, answer, { keepaliveMs: config.COMPATIBLE_KEEPALIVE_MS, logger });
    return;
  }
  const opened = await withRenamedFields(() => beginChat(call, services), format.rename);
  if ('body' in opened) {
    ctx.status = 200;
    ctx.body = opened.body;
    ctx.set(opened.headers);
    ctx.length = opened.bytes;
    return;
  }
  try {
    await streamAnswer(ctx, opened, { ...format, config });
  } finally {
    await releaseUncharged(opened);
  }
}

/** Begins a chat, and returns its whole answer, or the stored one of an earlier request. */
async function completeChat(
  call: ChatCall,
  format: AnswerFormat,
  services: Services,
): Promise<KeptAnswer> {
  const opened = await beginChat(call, services);
  if ('body' in opened) return opened;
  try {
    return await readAnswer(call.ctx, opened, format);
  } finally {
    await releaseUncharged(opened);
  }
}

/** Releases the Idempotency-Key of a chat for which nothing was charged, so that it can be used again. */
async function releaseUncharged({ chat: { bill }, claim }: AnsweredChat): Promise<void> {
  if (bill === null || bill.creditsConsumed === 0) await claim.release();
}

/** Stored answer of an earlier request. */
type StoredAnswer = Required<KeptAnswer> & { body: Readable };

/** Interval at which a repeated request reads whether the first one has ended, in milliseconds. */
const claimPollMs = 500;

/**
 * Claims the Idempotency-Key. A repeat of a request whose first call has not ended waits for it, so
 * that the repeat receives the same answer; a repeated stream is rejected.
 * @throws GatewayError REQUEST_IN_PROGRESS after COMPATIBLE_WAIT_MS
 */
async function claimKey(
  { ctx, body: request }: ChatCall,
  { claims, config }: Services,
): Promise<HeldClaim | UsedKey> {
  const claimed = {
    organizationId: ctx.state.caller.organizationId,
    idempotencyKey: parseIdempotencyKey(ctx),
    path: ctx.path,
    body: request,
    subjectId: newId('chat'),
  };
  const deadlineAtMs = performance.now() + config.COMPATIBLE_WAIT_MS;
  for (;;) {
    try {
      return await claims.claim(claimed);
    } catch (error) {
      const isWaiting = error instanceof GatewayError && error.code === 'REQUEST_IN_PROGRESS';
      const canWait = !request.stream && !ctx.res.closed && performance.now() < deadlineAtMs;
      if (!isWaiting || !canWait) throw error;
      await sleep(claimPollMs);
    }
  }
}

/** Begins the chat, or returns the stored answer of an earlier request. */
async function beginChat(call: ChatCall, services: Services): Promise<AnsweredChat | StoredAnswer> {
  const { ctx, body: request } = call;
  const { caller, requestId } = ctx.state;
  const incoming = { caller, requestId, request };
  const firstToken = services.telemetry.metrics.firstTokenSeconds.startTimer();
  const models = await checkModels(incoming, services);
  const claim = await claimKey(call, services);
  if (claim.state === 'done') {
    assert(claim.response, 'a finished claim has no stored answer');
    const { bytes, headers, stream } = claim.response;
    return { body: stream, bytes, headers: { 'Idempotent-Replayed': 'true', ...headers } };
  }
  try {
    const order = await completeOrder(incoming, models, services);
    const identity = { id: claim.subjectId, claim: claim.id };
    const { run: chat, answer, stream } = await services.chat.open(order, identity);
    ctx.state.recordRejection = undefined;
    // From now on, the reservation keeps other requests from using the Idempotency-Key.
    claim.stopRenewal();
    watchDisconnect(ctx, chat);
    return { chat, answer, stream, request, requestId, claim, models, firstToken };
  } catch (error) {
    await claim.release();
    throw error;
  }
}

/** Sends the answer as a stream of server-sent events. */
async function streamAnswer(
  ctx: Context,
  opened: AnsweredChat,
  { presentation, rename, config }: AnswerFormat & { config: Config },
): Promise<void> {
  const eventStream = createEventStream(ctx.res, {
    keepaliveMs: config.CHAT_KEEPALIVE_MS,
    keepalive: presentation.keepalive,
    open() {
      ctx.status = 200;
      ctx.set({
        'Content-Type': eventStreamType,
        ...listIgnored(ctx, opened, rename),
        ...unbuffered,
      });
      ctx.respond = false;
    },
  });
  try {
    const sentText = await relayStream(ctx, opened, { presentation, eventStream });
    const end = presentation.end(opened, requireBill(opened.chat));
    if (sentText !== null) {
      await opened.claim.storeResponse({ text: sentText + end, headers: keptHeaders(ctx) });
    }
    eventStream.end(end);
  } catch (error) {
    if (!eventStream.headersSent) throw error;
    if (error instanceof ReaderDisconnected) ctx.res.destroy();
    else eventStream.end(presentation.failure(opened, toShownError(ctx, error), opened.chat.bill));
  } finally {
    eventStream.stop();
  }
}

/** Returns the whole answer, which is stored for replays. */
async function readAnswer(
  ctx: Context,
  opened: AnsweredChat,
  { presentation, rename }: AnswerFormat,
): Promise<KeptAnswer> {
  const answer = await opened.answer();
  const ignored = listIgnored(ctx, opened, rename);
  const body = presentation.body(opened, answer, requireBill(opened.chat));
  const headers = { 'Content-Type': jsonType, ...ignored };
  await opened.claim.storeResponse({ text: body, headers });
  return { headers, body };
}

/** Returns the header with the fields and hints that the provider of the answer has not received. */
export function listIgnored(
  ctx: Context,
  {
    chat,
    request,
    models,
  }: Pick<AnsweredChat, 'request' | 'models'> & { chat: { servedBy: { model: string } } },
  rename: AnswerFormat['rename'],
): Record<string, string> {
  const model = models.find(({ id }) => id === chat.servedBy.model) ?? models[0];
  const hints = [
    ...listIgnoredHints(model, request.body).map(rename),
    ...listIgnoredReasoning(model, request.body),
  ];
  const unknown = ctx.response.get(ignoredFieldsHeader);
  const ignored = [unknown, ...(request.ignored ?? []), ...hints].filter(Boolean);
  return ignored.length > 0 ? { [ignoredFieldsHeader]: ignored.join(', ') } : {};
}

/** Returns the headers of a response that its replays have too. */
function keptHeaders({ response }: Context): Record<string, string> {
  const names = ['Content-Type', ignoredFieldsHeader];
  const headers = names.map((name) => [name, response.get(name)] as const);
  return Object.fromEntries(headers.filter(([, value]) => Boolean(value)));
}

/** Notifies the chat when its caller disconnects. */
function watchDisconnect({ res }: Context, chat: ChatRun): void {
  if (res.destroyed) chat.handleDisconnect();
  else res.once('close', () => chat.handleDisconnect());
}

/**
 * Sends the steps of a stream, and returns their text, which is stored for replays. Returns null if
 * the request has no Idempotency-Key, or if the text exceeds a byte budget.
 */
async function relayStream(
  ctx: Context,
  opened: AnsweredChat,
  { presentation, eventStream }: { presentation: Presentation; eventStream: EventStream },
): Promise<string | null> {
  let sentText: string[] | null = opened.claim.id ? [] : null;
  let hasOutput = false;
  await opened.stream(async (steps) => {
    const text = presentation.steps(opened, steps);
    if (text === '') return;
    const bytes = Buffer.byteLength(text);
    if (sentText && ctx.state.countBytes({ kind: 'replayText', bytes })) {
      sentText = null;
      ctx.state.releaseBytes('replayText');
    }
    sentText?.push(text);
    if (!hasOutput && steps.every((step) => step.outputText === '')) {
      // A provider that fails before its first output causes an ordinary error response.
      eventStream.hold(text);
      return;
    }
    const written = eventStream.write(text);
    if (!hasOutput) opened.firstToken({ provider: opened.chat.servedBy.provider });
    hasOutput = true;
    await written;
  });
  return sentText?.join('') ?? null;
}

function requireBill(chat: ChatRun): NonNullable<ChatRun['bill']> {
  assert(chat.bill, 'the chat has ended without a bill');
  return chat.bill;
}
