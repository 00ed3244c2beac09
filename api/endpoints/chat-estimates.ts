/** Declares the endpoints `…/estimate`, which estimate the price of a chat. */
import { z } from 'zod';
import { creditsFromMicro } from '../../domain/credits.ts';
import { buildOrder } from '../../chat/orders.ts';
import { repairAnswers, type ChatRequest } from '../../chat/formats/chat-request.ts';
import { chatBodyBytesMax, chatExample, chatRequestErrors } from './chat-endpoint.ts';
import { defineEndpoint } from './endpoint.ts';
import { dataSchema, toData } from './fields.ts';

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
  example = chatExample,
  summary = 'Estimate the price of a chat',
}: {
  path: `/${string}`;
  body: z.ZodType<ChatRequest>;
  bodyBytesMax?: number;
  bodyValuesMax?: number;
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
      body,
      bodyBytesMax,
      ...(bodyValuesMax && { bodyValuesMax }),
      repair: repairAnswers,
      example,
    },
    answer: dataSchema(chatEstimate),
    errors: chatRequestErrors,
    async handle({ ctx, body: request }, services) {
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
