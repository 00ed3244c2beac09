/**
 * Codec endpoints for Temporal's web UI and CLI, which decrypt and encrypt payloads for operators.
 * They implement Temporal's remote codec server protocol: request and response bodies are
 * `{payloads}` as proto JSON. The CLI sends the key of an operator. The web UI cannot send a key,
 * so its configured URL contains a secret that only permits decryption.
 */
import type { Payload, PayloadCodec } from '@temporalio/common';
import proto from '@temporalio/proto';
import { z } from 'zod';
import { GatewayError } from '../../../domain/errors.ts';
import type { ParameterizedContext } from 'koa';
import { PayloadUnreadableError } from '../../../platform/payload-codec.ts';
import type { Config } from '../../../platform/config.ts';
import { parseBearerKey } from '../../middleware/authenticate.ts';
import { readJson } from '../../http/json-body.ts';
import { createRecordSchema } from '../../../domain/body-schema.ts';
import { parseWith } from '../../../domain/parsing.ts';
import { defineEndpoint, rawResponse, type EndpointCall } from '../endpoint.ts';

const { Payloads } = proto.temporal.api.common.v1;

const basePath = '/api/admin/v1/temporal/codec';
/** Maximum body size in bytes: many times the size of a history page with the largest payloads. */
const bodyBytesMax = 16 * 1024 * 1024;
const preflightAgeSeconds = 600;

const base64 = z
  .string()
  .max(bodyBytesMax)
  .regex(/^(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{2,3}={0,2})?$/, 'must be base64');
const payloadsSchema = z.object({
  payloads: z
    .array(
      z.object({
        metadata: createRecordSchema(base64, { nameLengthMax: 200, countMax: 100 }).nullish(),
        data: base64.nullish(),
      }),
    )
    .max(10_000),
});
/** Request body by media type. `handle` reads it itself, after it has checked access. */
const content = { 'application/json': { schema: payloadsSchema } };

type ConvertPayload = (codec: PayloadCodec, payload: Payload) => Promise<Payload>;
const convertersByDirection: Record<string, ConvertPayload> = { decode: decrypt, encode: encrypt };

/** Declares the endpoint that answers CORS preflight requests for a path. */
const definePreflight = (path: `/${string}`) =>
  defineEndpoint({
    route: `OPTIONS ${path}`,
    scope: 'open',
    response: rawResponse,
    responses: { 204: 'The CORS headers.' },
    handle({ ctx }, { config }) {
      allowOrigin(ctx, config);
      ctx.set('Access-Control-Allow-Methods', 'POST');
      ctx.set('Access-Control-Allow-Headers', 'authorization, content-type, x-namespace');
      ctx.set('Access-Control-Max-Age', String(preflightAgeSeconds));
      ctx.status = 204;
    },
  });

/**
 * Endpoints of the payload codec. Their scope is `open`, because each endpoint checks the key or
 * the secret itself, after it has set the CORS header that lets a browser read an error.
 */
export const temporalCodec = [
  definePreflight(`${basePath}/:direction`),
  definePreflight(`${basePath}/read/:secret/:direction`),

  defineEndpoint({
    route: `POST ${basePath}/:direction`,
    scope: 'open',
    request: { params: z.object({ direction: z.string() }), content },
    response: payloadsSchema,
    async handle({ ctx, params: { direction } }, { config, payloadCodec, findOperator }) {
      allowOrigin(ctx, config);
      if (!(await findOperator.findByKey(parseBearerKey(ctx.req))))
        throw new GatewayError('Unauthorized');
      const convertPayload = Object.hasOwn(convertersByDirection, direction)
        ? convertersByDirection[direction]
        : undefined;
      if (!convertPayload) throw new GatewayError('NOT_FOUND');
      return convertPayloads(ctx, (payload) => convertPayload(payloadCodec, payload));
    },
  }),

  defineEndpoint({
    route: `POST ${basePath}/read/:secret/decode`,
    scope: 'open',
    request: { params: z.object({ secret: z.string() }), content },
    response: payloadsSchema,
    handle({ ctx, params: { secret } }, { config, payloadCodec, isCodecSecret }) {
      allowOrigin(ctx, config);
      if (!isCodecSecret(secret)) throw new GatewayError('Unauthorized');
      return convertPayloads(ctx, (payload) => decrypt(payloadCodec, payload));
    },
  }),
];

async function convertPayloads(
  ctx: EndpointCall['ctx'],
  convertPayload: (payload: Payload) => Promise<Payload>,
): Promise<z.infer<typeof payloadsSchema>> {
  const body = parseWith(payloadsSchema, await readJson(ctx, { bytesMax: bodyBytesMax }));
  const { payloads } = Payloads.fromObject(body);
  const convertedPayloads = await Promise.all(payloads.map(convertPayload));
  ctx.set('Cache-Control', 'no-store');
  const answer = Payloads.create({ payloads: convertedPayloads });
  return payloadsSchema.parse(Payloads.toObject(answer, { bytes: String, arrays: true }));
}

/**
 * Decrypts a payload. Returns it unchanged if it cannot be decrypted, so that Temporal can still
 * show the other payloads.
 */
async function decrypt(codec: PayloadCodec, payload: Payload): Promise<Payload> {
  try {
    return (await codec.decode([payload]))[0] ?? payload;
  } catch (error) {
    if (error instanceof PayloadUnreadableError) return payload;
    throw error;
  }
}

async function encrypt(codec: PayloadCodec, payload: Payload): Promise<Payload> {
  return (await codec.encode([payload]))[0] ?? payload;
}

function allowOrigin(ctx: ParameterizedContext, { TEMPORAL_UI_ORIGINS: origins }: Config): void {
  ctx.vary('Origin');
  const origin = ctx.get('origin');
  if (origins.includes(origin)) ctx.set('Access-Control-Allow-Origin', origin);
}
