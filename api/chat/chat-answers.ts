/**
 * Responses to chats (spec §4.1): claims the Idempotency-Key, reserves credits, and sends the
 * answer as one body or as a stream.
 */
import type { ChatEstimate, ChatOrder } from '../../activities/chat.ts';
import { leastTokens } from '../../chat/input-count.ts';
import type { OpenChat } from '../../chat/open-chat.ts';
import type { ChatModel } from '../../catalog/chat-model.ts';
import { fieldError, GatewayError, assert } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { received } from '../../domain/field-messages.ts';
import type { Config } from '../../platform/config.ts';
import type { Composition } from '../composition.ts';
import type { Presentation, Shown } from './chat-presentation.ts';
import type { ChatRequest } from './chat-schema.ts';
import { checkParts } from './chat-messages.ts';
import {
  createEventStream,
  eventStreamType,
  ReaderGone,
  type EventStream,
} from '../http/event-stream.ts';
import type { Context } from '../context.ts';
import type { Hold } from '../idempotency/holds.ts';
import { authorizeModel } from '../middleware/authenticate.ts';

/** Chat request with its context. */
interface ChatCall {
  ctx: Context;
  body: ChatRequest;
}

type Services = Pick<
  Composition,
  'chat' | 'chatCatalog' | 'outbound' | 'claims' | 'config' | 'telemetry'
>;

/** Running chat, and the claim under which its answer is kept for replays. */
interface Handled extends Shown {
  hold: Hold;
  /** Records the time from the request to the first output of the stream. */
  firstToken: (labels: { provider: string }) => unknown;
}

const jsonType = 'application/json; charset=utf-8';

/** Sends the answer of a chat, as one body or as a stream. */
export async function answerChat(
  { ctx, body: request }: ChatCall,
  presentation: Presentation,
  services: Services,
): Promise<void> {
  const shown = await open(ctx, request, services);
  if (!shown) return;
  try {
    if (request.stream) await streamAnswer(ctx, shown, { presentation, config: services.config });
    else await sendAnswer(ctx, shown, presentation);
  } finally {
    // An Idempotency-Key is free again only if nothing was charged under it.
    if (!shown.chat.bill?.creditsConsumed) await shown.hold.giveBack();
  }
}

/** Opens the chat; returns null if the kept answer of the first request was sent. */
async function open(
  ctx: Context,
  request: ChatRequest,
  services: Services,
): Promise<Handled | null> {
  const firstToken = services.telemetry.metrics.firstTokenSeconds.startTimer();
  const { requestId } = ctx.state;
  const models = checkedModels(ctx, request, services);
  const claimed = { path: ctx.path, body: request, subjectId: newId('chat') };
  const hold = await services.claims.hold(ctx, claimed);
  if (hold.state === 'done') {
    assert(hold.answer, 'the key of a chat that is done has its answer');
    ctx.set('Idempotent-Replayed', 'true');
    ctx.set('Content-Type', hold.answer.contentType);
    ctx.status = 200;
    ctx.body = hold.answer.body;
    return null;
  }
  const chat = await services.chat
    .open(orderOf(ctx, request, models), { id: hold.subjectId, claim: hold.name })
    .catch(async (error: unknown) => {
      await hold.giveBack();
      throw error;
    });
  // The reservation holds the key from now on.
  hold.leave();
  watch(ctx, chat);
  return { chat, request, requestId, hold, firstToken };
}

/**
 * Estimates the price of a chat.
 * @throws GatewayError errors that reject the chat before it reserves
 */
export function estimateChat(
  { ctx, body: request }: ChatCall,
  services: Pick<Services, 'chat' | 'chatCatalog' | 'outbound'>,
): Promise<ChatEstimate> {
  const models = checkedModels(ctx, request, services);
  return services.chat.estimate(orderOf(ctx, request, models));
}

type Candidates = ChatOrder['models'];

/**
 * Returns the models of a request, each once, after checking that the key may use them.
 * @throws GatewayError
 */
function checkedModels(
  ctx: Context,
  request: ChatRequest,
  { chatCatalog: catalog, outbound }: Pick<Services, 'chatCatalog' | 'outbound'>,
): Candidates {
  const { model, fallbacks = [] } = request;
  const first = catalog.find(model);
  const others = fallbacks.map((id, index) => catalog.find(id, `models.${index}`));
  const models = [first, ...new Set(others.filter(({ id }) => id !== first.id))] as const;
  for (const each of models) {
    checkParts(request, each, outbound);
    authorizeModel(ctx.state.caller, each.id);
    refuseTooManyTokens(request, each);
    refuseTooLongInput(request, each);
  }
  return models;
}

/**
 * Rejects a `max_tokens` above the limit of the model, because the model would end the answer
 * earlier than requested.
 */
function refuseTooManyTokens({ maxTokens }: ChatRequest, { id, limit }: ChatModel): void {
  if (maxTokens === null || maxTokens <= limit.output) return;
  const message = `must be at most ${limit.output} with ${id}${received(maxTokens)}`;
  throw fieldError('INVALID_REQUEST', 'max_tokens', message);
}

/**
 * Rejects an input that certainly exceeds the context of the model. The message contains the
 * phrases by which clients recognize this error.
 */
function refuseTooLongInput({ body }: ChatRequest, { id, limit }: ChatModel): void {
  const least = leastTokens(body, limit.context);
  if (least <= limit.context) return;
  const size = `it has more than ${limit.context} tokens`;
  const message = `The prompt is too long: ${size}, the maximum context length of ${id}.`;
  const details = [{ path: 'messages', message: `must have at most ${limit.context} tokens` }];
  throw new GatewayError('CONTEXT_LENGTH_EXCEEDED', message, { details });
}

function orderOf(ctx: Context, request: ChatRequest, models: Candidates): ChatOrder {
  const { caller, requestId } = ctx.state;
  return {
    organizationId: caller.organizationId,
    keyId: caller.keyId,
    requestId,
    models,
    body: request.body,
    maxTokens: request.maxTokens,
    stream: request.stream,
    metadata: request.metadata,
  };
}

/** Sends the answer as a stream of server-sent events. */
async function streamAnswer(
  ctx: Context,
  shown: Handled,
  { presentation, config }: { presentation: Presentation; config: Config },
): Promise<void> {
  const out = createEventStream(ctx.res, {
    stallTimeoutMs: config.CHAT_STALL_TIMEOUT_MS,
    keepaliveMs: config.CHAT_KEEPALIVE_MS,
    open() {
      ctx.status = 200;
      ctx.set('Content-Type', eventStreamType);
      ctx.set('Cache-Control', 'no-cache, no-transform');
      ctx.set('X-Accel-Buffering', 'no');
      ctx.respond = false;
    },
  });
  try {
    const keptText = await relay(ctx, shown, { presentation, out });
    const end = presentation.end(shown, billOf(shown.chat));
    if (keptText !== null) {
      await shown.hold.finish({ text: keptText + end, contentType: eventStreamType });
    }
    out.end(end);
  } catch (error) {
    if (!out.opened) throw error;
    if (error instanceof ReaderGone) ctx.res.destroy();
    else out.end(presentation.failure(shown, gatewayErrorOf(error), shown.chat.bill));
  } finally {
    out.stop();
  }
}

/** Sends the answer as one body. */
async function sendAnswer(ctx: Context, shown: Handled, presentation: Presentation): Promise<void> {
  const answer = await shown.chat.answer();
  const body = presentation.body(shown, answer, billOf(shown.chat));
  await shown.hold.finish({ text: body, contentType: jsonType });
  ctx.status = 200;
  ctx.set('Content-Type', jsonType);
  ctx.body = body;
}

/** Calls `callerLeft` of the chat when its caller disconnects. */
function watch({ res }: Context, chat: OpenChat): void {
  if (res.destroyed) chat.callerLeft();
  else res.once('close', () => chat.callerLeft());
}

/**
 * Sends the steps of a stream; returns the sent text for a replay, or null if it is not kept or is
 * too long.
 */
async function relay(
  ctx: Context,
  shown: Handled,
  { presentation, out }: { presentation: Presentation; out: EventStream },
): Promise<string | null> {
  let keptText: string[] | null = shown.hold.name ? [] : null;
  let silent = true;
  await shown.chat.stream(async (steps) => {
    const text = presentation.steps(shown, steps);
    if (text === '') return;
    const bytes = Buffer.byteLength(text);
    if (keptText && ctx.state.holdBytes({ kind: 'keptText', bytes })) {
      keptText = null;
      ctx.state.releaseBytes('keptText');
    }
    keptText?.push(text);
    const written = out.write(text);
    if (silent && steps.some((step) => step.written !== '')) {
      silent = false;
      shown.firstToken({ provider: shown.chat.served.provider });
    }
    await written;
  });
  return keptText?.join('') ?? null;
}

function billOf(chat: OpenChat): NonNullable<OpenChat['bill']> {
  assert(chat.bill, 'a chat that has ended has a bill');
  return chat.bill;
}

function gatewayErrorOf(error: unknown): GatewayError {
  return error instanceof GatewayError
    ? error
    : new GatewayError('Internal server error', undefined, { cause: error });
}
