/** POST /api/v1/chat and /api/v1/chat/completions (spec §4.1). */
import type Router from '@koa/router';
import type { z } from 'zod';
import type { Chat } from '../../activities/chat/chat.ts';
import type { OpenChat } from '../../activities/chat/open-chat.ts';
import type { ChatCatalog } from '../../catalog/chat-catalog.ts';
import { assert } from '../../domain/assert.ts';
import { GatewayError } from '../../domain/errors.ts';
import { firstTokenSent } from '../../platform/observations.ts';
import type { Outbound } from '../../platform/outbound.ts';
import {
  completionsPresentation,
  servicePresentation,
  type Presentation,
  type Shown,
} from '../chat/chat-presentation.ts';
import { chatRequest, completionsRequest, type ChatRequest } from '../chat/chat-schema.ts';
import { checkParts } from '../chat/content-parts.ts';
import { createEventStream, ReaderGone, type EventStream } from '../chat/event-stream.ts';
import type { Context, RequestState } from '../context.ts';
import { authorize } from '../middleware/authenticate.ts';
import { parseBody } from '../middleware/body.ts';

interface ChatRoutesDeps {
  chat: Chat;
  catalog: Pick<ChatCatalog, 'find'>;
  outbound: Outbound;
  stallTimeoutMs: number;
  keepaliveMs: number;
}

/** A chat that is answered as it comes. */
interface Streamed extends Shown {
  /** When its request came, by `performance.now()`. */
  startedAtMs: number;
  provider: string;
}

/** Pictures travel inside the request. */
const chatBytesMax = 20 * 1024 * 1024;

/** Adds both paths. */
export function addChatRoutes(router: Router<RequestState>, deps: ChatRoutesDeps): void {
  async function open(ctx: Context, schema: z.ZodType<ChatRequest>): Promise<Shown> {
    const { caller, requestId } = ctx.state;
    const request = await parseBody(ctx, schema, chatBytesMax);
    const model = deps.catalog.find(request.model);
    checkParts(request, model, deps.outbound);
    authorize(caller, 'chat', model.id);
    const chat = await deps.chat.open({
      organizationId: caller.organizationId,
      keyId: caller.keyId,
      requestId,
      model,
      body: request.body,
      maxTokens: request.maxTokens,
      stream: request.stream,
    });
    watch(ctx, chat);
    return { chat, request, requestId };
  }

  const handle = (schema: z.ZodType<ChatRequest>, presentation: Presentation) => {
    return async (ctx: Context): Promise<void> => {
      const startedAtMs = performance.now();
      const shown = await open(ctx, schema);
      if (shown.request.stream) {
        const { provider } = deps.catalog.find(shown.request.model);
        await streamAnswer(ctx, { ...shown, startedAtMs, provider }, presentation);
      } else await wholeAnswer(ctx, shown, presentation);
    };
  };

  async function streamAnswer(
    ctx: Context,
    shown: Streamed,
    presentation: Presentation,
  ): Promise<void> {
    const out = createEventStream(ctx.res, {
      stallTimeoutMs: deps.stallTimeoutMs,
      keepaliveMs: deps.keepaliveMs,
      onOpen() {
        ctx.respond = false;
        ctx.status = 200;
      },
    });
    try {
      await relay(shown, presentation, out);
      out.end(presentation.end(shown, billOf(shown.chat)));
    } catch (error) {
      if (!out.opened) throw error;
      if (error instanceof ReaderGone) ctx.res.destroy();
      else out.end(presentation.failure(shown, known(error), shown.chat.bill));
    } finally {
      out.stop();
    }
  }

  router.post('/chat', handle(chatRequest, servicePresentation));
  router.post('/chat/completions', handle(completionsRequest, completionsPresentation));
}

/** Tells the chat when its caller is gone. */
function watch({ res }: Context, chat: OpenChat): void {
  if (res.destroyed) chat.callerLeft();
  else res.once('close', () => chat.callerLeft());
}

async function relay(shown: Streamed, presentation: Presentation, out: EventStream): Promise<void> {
  let silent = true;
  for await (const steps of shown.chat.events()) {
    const text = presentation.steps(shown, steps);
    if (text === '') continue;
    const wait = out.write(text);
    if (silent && steps.some(({ written }) => written !== '')) {
      silent = false;
      const seconds = (performance.now() - shown.startedAtMs) / 1000;
      firstTokenSent.publish({ provider: shown.provider, seconds });
    }
    if (wait) await wait;
  }
}

async function wholeAnswer(ctx: Context, shown: Shown, presentation: Presentation): Promise<void> {
  const answer = await shown.chat.answer();
  ctx.status = 200;
  ctx.type = 'application/json';
  ctx.body = presentation.body(shown, answer, billOf(shown.chat));
}

function billOf(chat: OpenChat): NonNullable<OpenChat['bill']> {
  assert(chat.bill, 'a chat that has ended has a bill');
  return chat.bill;
}

function known(error: unknown): GatewayError {
  return error instanceof GatewayError
    ? error
    : new GatewayError('Internal server error', undefined, { cause: error });
}
