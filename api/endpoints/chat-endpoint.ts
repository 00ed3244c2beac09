/** Declares chat endpoints, each with its own request format and response format, and their estimates. */
import { z } from 'zod';
import type { ChatFormat } from '../../chat/chat-jobs.ts';
import { answerChat } from './chat-answer.ts';
import { startChatJob } from './chat-job-submission.ts';
import { sendBackgroundResponse } from './openai/stored-responses.ts';
import type { Presentation } from '../../chat/formats/completions-answer.ts';
import { exactFields, repairAnswers, type ChatRequest } from '../../chat/formats/chat-fields.ts';
import { completeEndUser, endUserHeader, spendingHeaders } from '../http/request-headers.ts';
import type { Context } from '../context.ts';
import { throwIfSent } from '../middleware/token-rules.ts';
import type { EndpointDescription } from './description.ts';
import { defineEndpoint, rawResponse, type Endpoint } from './endpoint.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import { buildOrder } from '../../chat/orders.ts';
import { dataSchema, toData } from './fields.ts';
import { acceptedResponse, buildAcceptedResponse } from './studio-results.ts';

const chatHeaders = z.object({
  'X-Ignored-Fields': z.string().optional().meta({
    description:
      'Names of request fields that were ignored, because the API or the model’s provider does not know them.',
    example: 'plugins, provider.order',
  }),
});

/** Maximum size of a chat request in bytes. It is large because requests may contain images. */
export const chatBodyBytesMax = 20 * 1024 * 1024;

/** Field of a chat response with the charged credits. */
export const creditsConsumed = z.number().nullable().meta({
  description:
    'Charged credits. Null if the charge is not confirmed within some seconds; GET /api/v1/chats/{id} shows it later.',
});

/** Example of a chat request. */
export const chatExample = {
  model: 'gpt-5-mini',
  messages: [{ role: 'user', content: 'What lights a harbour?' }],
  max_tokens: 100,
};

/** Error codes of requests that are rejected before credits are reserved. */
const chatRequestErrors = [
  'UNKNOWN_MODEL',
  'UNSUPPORTED_PARAMETER',
  'CONFLICTING_FIELDS',
  'INVALID_INPUT_URL',
  'CONTEXT_LENGTH_EXCEEDED',
] as const;

interface ChatEndpoint extends Pick<
  EndpointDescription,
  'errorFormat' | 'acceptsXApiKey' | 'summary' | 'description'
> {
  path: `/${string}`;
  body: z.ZodType<ChatRequest>;
  /** Limits of the body; by default those of a chat. */
  bodyBytesMax?: number;
  bodyValuesMax?: number;
  /** Fields in which numbers keep their digits; by default those of a chat. */
  numbersKept?: ReadonlySet<string>;
  example: object;
  /** Format of chat jobs; absent if the endpoint starts none. */
  format?: ChatFormat;
  response: { description: string; schema: z.ZodType; event?: z.ZodType };
  /** Creates the object that formats the response of one chat. */
  presentation: () => Presentation;
  /** Converts a field name of the internal request to the endpoint's own, which errors contain. */
  rename?: (path: string) => string;
}

/** Adds the end user of the header to a request. @throws GatewayError CONFLICTING_FIELDS */
function identify(ctx: Context, { endUserDefault, ...request }: ChatRequest): ChatRequest {
  return { ...request, metadata: completeEndUser(ctx, request.metadata, endUserDefault) };
}

/** Rejects a chat job of a browser token. @throws GatewayError FORBIDDEN */
function throwIfForKeys(
  ctx: Context,
  { background, webhook }: ChatRequest,
  format: ChatFormat | undefined,
): void {
  const name = format === 'responses' ? 'background' : 'async';
  throwIfSent(ctx.state.caller, { [name]: background || webhook || undefined }, [name]);
}

/** Declares a chat endpoint. */
export function defineChatEndpoint({
  path,
  body,
  bodyBytesMax = chatBodyBytesMax,
  bodyValuesMax,
  numbersKept = exactFields,
  example,
  format,
  response,
  presentation,
  rename = (field) => field,
  ...description
}: ChatEndpoint): Endpoint {
  return defineEndpoint({
    ...description,
    route: `POST ${path}`,
    scope: 'chat',
    allowsTokens: true,
    request: {
      headers: spendingHeaders,
      body,
      bodyBytesMax,
      ...(bodyValuesMax && { bodyValuesMax }),
      repair: repairAnswers,
      exactFields: numbersKept,
      example,
    },
    response: rawResponse,
    responses: {
      200: { headers: chatHeaders, ...response },
      ...(format !== undefined &&
        format !== 'responses' && {
          202: {
            description: 'With `async: true`: the job was started.',
            headers: chatHeaders,
            schema: acceptedResponse,
          },
        }),
    },
    errors: [
      ...chatRequestErrors,
      'PROVIDER_REJECTED_INPUT',
      'CONTENT_POLICY',
      'INSUFFICIENT_CREDITS',
      'KEY_LIMIT_EXCEEDED',
      'END_USER_LIMIT_EXCEEDED',
      'END_USER_SUSPENDED',
      'ANSWER_NOT_KEPT',
      'PROVIDER_ERROR',
      'DEADLINE_EXCEEDED',
      'OUTCOME_UNKNOWN',
      ...(format
        ? (['JOBS_MAX_REACHED', 'STORAGE_QUOTA_EXCEEDED', 'JOB_NOT_FOUND', 'JOB_ARCHIVED'] as const)
        : []),
    ],
    async handle({ ctx, body: sent }, services) {
      const chat = identify(ctx, sent);
      const call = { ctx, body: chat };
      throwIfForKeys(ctx, chat, format);
      if (!chat.background || !format)
        return answerChat(call, { presentation: presentation(), rename }, services);
      const job = await startChatJob(call, { format, rename }, services);
      if (format === 'responses')
        return sendBackgroundResponse(ctx, { job, stream: chat.stream }, services);
      ctx.body = buildAcceptedResponse(ctx, job, services.view);
    },
  });
}

const chatEstimate = z
  .object({
    model: z.string(),
    credits: z.number().meta({ description: 'Credits that the chat would reserve now.' }),
    least: z.number().meta({ description: 'Minimum available balance for the chat, in credits.' }),
    most: z.number().meta({ description: 'Maximum charge in credits: the sum of `items`.' }),
    items: z.array(z.object({ unit: z.string(), quantity: z.int(), credits: z.number() })),
  })
  .meta({ id: 'ChatEstimate' });

/** Declares an endpoint that estimates the price of a chat. */
export const defineEstimateEndpoint = ({
  path,
  body,
  bodyBytesMax = chatBodyBytesMax,
  bodyValuesMax,
  numbersKept = exactFields,
  example = chatExample,
  summary = 'Estimate the price of a chat',
}: {
  path: `/${string}`;
  body: z.ZodType<ChatRequest>;
  bodyBytesMax?: number;
  bodyValuesMax?: number;
  numbersKept?: ReadonlySet<string>;
  example?: object;
  summary?: string;
}) =>
  defineEndpoint({
    route: `POST ${path}/estimate`,
    scope: 'chat',
    summary,
    description:
      'Accepts the body of the request and returns the credits that it would reserve. ' +
      'Nothing is sent to the provider, reserved or charged. The request is charged for the tokens used.',
    request: {
      headers: endUserHeader,
      body,
      bodyBytesMax,
      ...(bodyValuesMax && { bodyValuesMax }),
      repair: repairAnswers,
      exactFields: numbersKept,
      example,
    },
    response: dataSchema(chatEstimate),
    errors: chatRequestErrors,
    async handle({ ctx, body: sent }, services) {
      const request = identify(ctx, sent);
      const { caller, requestId } = ctx.state;
      const order = await buildOrder({ caller, requestId, request }, services);
      const estimate = await services.chat.estimate(order);
      const { reserveMicro, reserveMinMicro, chargeMaxMicro } = estimate;
      return toData({
        model: request.model,
        credits: creditsFromMicro(reserveMicro),
        least: creditsFromMicro(reserveMinMicro),
        most: creditsFromMicro(chargeMaxMicro),
        items: estimate.parts.map(({ unit, tokens, amountMicro }) => ({
          unit,
          quantity: tokens,
          credits: creditsFromMicro(amountMicro),
        })),
      });
    },
  });
