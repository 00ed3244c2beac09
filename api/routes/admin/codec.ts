/**
 * The codec endpoint of Temporal's web UI and CLI: opens (and seals) payloads for operators, in the
 * protocol of remote codec servers: `{payloads}` in, `{payloads}` out, as proto JSON. The CLI sends the
 * admin key; the web UI can send none, so the address it is told carries a word of its own, which
 * only opens.
 */
import type Router from '@koa/router';
import type { Payload, PayloadCodec } from '@temporalio/common';
import { z } from 'zod';
import { GatewayError } from '../../../domain/errors.ts';
import {
  codecAccessWord,
  createPayloadCodec,
  PayloadUnreadableError,
  type PayloadSettings,
} from '../../../platform/payload-codec.ts';
import type { Context, RequestState } from '../../context.ts';
import { bearerKey } from '../../middleware/authenticate.ts';
import { parseBody } from '../../middleware/body.ts';
import { bodySchema, recordOf } from '../../middleware/body-schema.ts';
import { createWordCheck } from './secret-word.ts';

interface CodecSettings extends PayloadSettings {
  ADMIN_API_KEY: string;
  TEMPORAL_UI_ORIGINS: readonly string[];
}

const prefix = '/api/admin/v1/temporal/codec';
/** A page of a history with its largest payloads fits many times. */
const bytesMax = 16 * 1024 * 1024;
const preflightAgeSeconds = 600;

const base64 = z
  .string()
  .max(bytesMax)
  .regex(/^[A-Za-z0-9+/_-]*={0,2}$/, 'must be base64');
const exchange = bodySchema(
  z.object({
    payloads: z
      .array(
        z.object({
          metadata: recordOf(base64, { nameMax: 200, countMax: 100 }).nullish(),
          data: base64.nullish(),
        }),
      )
      .max(10_000),
  }),
);
type ProtoJson = z.infer<typeof exchange>['payloads'][number];

/** Adds the routes; before the admin router, whose key a web UI cannot send. */
export function addCodecRoutes(router: Router<RequestState>, settings: CodecSettings): void {
  const codec = createPayloadCodec(settings);
  const isOperatorKey = createWordCheck(settings.ADMIN_API_KEY);
  const isAccessWord = createWordCheck(codecAccessWord(settings.ADMIN_API_KEY));

  router.options([`${prefix}/:direction`, `${prefix}/read/:word/:direction`], (ctx) => {
    allowOrigin(ctx, settings.TEMPORAL_UI_ORIGINS);
    ctx.set('Access-Control-Allow-Methods', 'POST');
    ctx.set('Access-Control-Allow-Headers', 'authorization, content-type, x-namespace');
    ctx.set('Access-Control-Max-Age', String(preflightAgeSeconds));
    ctx.status = 204;
  });

  router.post(`${prefix}/:direction`, async (ctx) => {
    allowOrigin(ctx, settings.TEMPORAL_UI_ORIGINS);
    if (!isOperatorKey(bearerKey(ctx.req))) throw new GatewayError('Unauthorized');
    const { direction } = ctx.params;
    if (direction === 'decode') return answer(ctx, (payload) => opened(codec, payload));
    if (direction === 'encode') return answer(ctx, (payload) => sealed(codec, payload));
    throw new GatewayError('NOT_FOUND');
  });

  router.post(`${prefix}/read/:word/decode`, async (ctx) => {
    allowOrigin(ctx, settings.TEMPORAL_UI_ORIGINS);
    if (!isAccessWord(ctx.params['word'])) throw new GatewayError('Unauthorized');
    await answer(ctx, (payload) => opened(codec, payload));
  });
}

async function answer(ctx: Context, turn: (payload: Payload) => Promise<Payload>): Promise<void> {
  const { payloads } = await parseBody(ctx, exchange, bytesMax);
  const turned = await Promise.all(payloads.map((payload) => turn(fromProtoJson(payload))));
  ctx.set('Cache-Control', 'no-store');
  ctx.body = { payloads: turned.map(toProtoJson) };
}

/** A payload that cannot be opened is shown as it is: one lost key must not hide a whole history. */
async function opened(codec: PayloadCodec, payload: Payload): Promise<Payload> {
  try {
    return (await codec.decode([payload]))[0] ?? payload;
  } catch (error) {
    if (error instanceof PayloadUnreadableError) return payload;
    throw error;
  }
}

async function sealed(codec: PayloadCodec, payload: Payload): Promise<Payload> {
  return (await codec.encode([payload]))[0] ?? payload;
}

function allowOrigin(ctx: Context, origins: readonly string[]): void {
  ctx.vary('Origin');
  const origin = ctx.get('origin');
  if (origins.includes(origin)) ctx.set('Access-Control-Allow-Origin', origin);
}

function fromProtoJson(payload: ProtoJson): Payload {
  const metadata = Object.entries(payload.metadata ?? {}).map(
    ([name, value]) => [name, Buffer.from(value, 'base64')] as const,
  );
  return {
    metadata: Object.fromEntries(metadata),
    ...(payload.data && { data: Buffer.from(payload.data, 'base64') }),
  };
}

function toProtoJson(payload: Payload): ProtoJson {
  const metadata = Object.entries(payload.metadata ?? {}).map(
    ([name, value]) => [name, Buffer.from(value).toString('base64')] as const,
  );
  return {
    metadata: Object.fromEntries(metadata),
    data: Buffer.from(payload.data ?? new Uint8Array()).toString('base64'),
  };
}
