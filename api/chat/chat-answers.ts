/**
 * Responses to chats (spec §4.1): claims the Idempotency-Key, reserves credits, and sends the
 * answer as one body or as a stream.
 */
import type { OpenChat } from '../../chat/open-chat.ts';
import { assert } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { Config } from '../../platform/config.ts';
import type { Composition } from '../composition.ts';
import type { Presentation, Shown } from './chat-presentation.ts';
import { checkModels, orderOf } from './chat-orders.ts';
import type { ChatCall } from './chat-request.ts';
import { signUploads } from './uploaded-pictures.ts';
import {
  createEventStream,
  eventStreamType,
  ReaderGone,
  type EventStream,
} from '../http/event-stream.ts';
import type { Context } from '../context.ts';
import type { Hold } from '../idempotency/holds.ts';
import { toGatewayError } from '../middleware/errors.ts';

type Services = Pick<
  Composition,
  'chat' | 'chatCatalog' | 'outbound' | 'inputs' | 'storage' | 'claims' | 'config' | 'telemetry'
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
  call: ChatCall,
  presentation: Presentation,
  services: Services,
): Promise<void> {
  const { ctx, body: request } = call;
  const { ignored = [] } = request;
  if (ignored.length > 0) ctx.append('X-Ignored-Fields', ignored.join(', '));
  const shown = await open(call, services);
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
async function open(call: ChatCall, services: Services): Promise<Handled | null> {
  const { ctx, body: request } = call;
  const firstToken = services.telemetry.metrics.firstTokenSeconds.startTimer();
  const models = checkModels(call, services);
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
  try {
    const order = orderOf(await signUploads(call, services), models);
    const chat = await services.chat.open(order, { id: hold.subjectId, claim: hold.name });
    // The reservation holds the key from now on.
    hold.leave();
    watch(ctx, chat);
    return { chat, request, requestId: ctx.state.requestId, hold, firstToken };
  } catch (error) {
    await hold.giveBack();
    throw error;
  }
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
    else out.end(presentation.failure(shown, toGatewayError(error), shown.chat.bill));
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
