/**
 * /api/v1/webhooks: webhooks of an organization's jobs, the secret that signs them, and the URL for notices of its
 * balance and key limits (docs/webhooks.md). Operators see webhooks in the same format.
 */
import type { ParameterizedContext } from 'koa';
import { z } from 'zod';
import { noticeData, type AccountNotices } from '../../webhooks/notices.ts';
import { createSigningSecrets, type SigningSecrets } from '../../webhooks/signing-secrets.ts';
import {
  webhookAttempt,
  webhookRecord,
  type JobName,
  type WebhookRecord,
  type Webhooks,
} from '../../webhooks/webhooks.ts';
import { creditsFromMicro, microFromCredits } from '../../domain/credits.ts';
import { GatewayError, assert } from '../../domain/errors.ts';
import { isoTimes, isoTime } from '../../domain/json.ts';
import type { Composition } from '../composition.ts';
import {
  claimKey,
  finishClaim,
  idempotencyHeader,
  idempotencyKeyOf,
} from '../idempotency/claims.ts';
import { parseWebhookUrl, webhookUrlLengthMax } from '../studio/webhook-url.ts';
import { answerOf, time, foundPage, idField, pageOf } from './fields.ts';
import { defineEndpoint, section } from './endpoint.ts';

const attemptsShownMax = 50;

const deliverySchema = answerOf(webhookAttempt).meta({ id: 'WebhookDelivery' });

/** Schema of a webhook without its attempts. */
export const webhookLine = answerOf(webhookRecord)
  .omit({ organizationId: true })
  .extend({ url: z.url() });

/** Schema of a webhook with its newest attempts. */
export const webhookSchema = webhookLine
  .extend({
    deliveries: z
      .array(deliverySchema)
      .meta({ description: 'The latest 50 attempts, newest first.' }),
  })
  .meta({ id: 'Webhook' });

/** Returns a webhook with its latest attempts. */
export async function showWebhook(
  webhooks: Pick<Webhooks, 'attempts'>,
  webhook: WebhookRecord,
): Promise<z.infer<typeof webhookSchema>> {
  const attempts = await webhooks.attempts(webhook.jobId, attemptsShownMax);
  return webhookSchema.parse({ ...isoTimes(webhook), deliveries: attempts.map(isoTimes) });
}

/** Schema of a webhook in a list, with the result of its last attempt. */
export const listedWebhook = webhookLine
  .extend({ lastStatus: z.int().nullable(), lastError: z.string().nullable() })
  .meta({ id: 'ListedWebhook' });

/** Returns the webhook of a job. @throws GatewayError NOT_FOUND if the job has none */
export async function webhookOf(
  webhooks: Pick<Webhooks, 'find'>,
  job: JobName,
): Promise<WebhookRecord> {
  const webhook = await webhooks.find(job);
  if (!webhook) throw new GatewayError('NOT_FOUND', 'This job has no webhook.');
  return webhook;
}

/** Starts a new delivery of a webhook, and returns the webhook with its latest attempts. */
export async function redeliver(
  { webhooks, webhookRelay }: Pick<Composition, 'webhooks' | 'webhookRelay'>,
  webhook: WebhookRecord,
): Promise<z.infer<typeof webhookSchema>> {
  const { jobId, organizationId } = webhook;
  await webhookRelay.redeliver({ subjectId: jobId, organizationId });
  return showWebhook(webhooks, await webhookOf(webhooks, webhook));
}

/** Endpoint that lists webhooks of jobs with their state. */
export const webhookDeliveries = section('Webhooks', {
  listWebhookDeliveries: defineEndpoint({
    route: 'GET /api/v1/webhooks/deliveries',
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'List the webhooks of jobs, newest job first',
    request: {
      query: z.strictObject({
        state: z
          .enum([...webhookLine.shape.state.options, 'failing'])
          .optional()
          .meta({
            description:
              'State of the delivery; `failing`: every webhook whose last attempt failed.',
          }),
        limit: z.coerce.number().int().min(1).max(100).default(20),
        cursor: idField('job').optional(),
      }),
    },
    answer: pageOf(listedWebhook),
    async handle({ caller, query: { state, limit, cursor } }, { webhooks }) {
      const { organizationId } = caller;
      const listing = { organizationId, state, beforeJobId: cursor, limit: limit + 1 };
      const rows = await webhooks.list(listing);
      return foundPage(rows, {
        limit,
        cursor: 'jobId',
        show: (row) => listedWebhook.parse(isoTimes(row)),
      });
    },
  }),
});

const daySeconds = 86_400;
const overlapSeconds = z
  .int()
  .min(0)
  .max(7 * daySeconds)
  .default(daySeconds);

const secretSchema = z.object({
  secret: z
    .string()
    .meta({ description: 'Secret in the format of the Standard Webhooks libraries: `whsec_…`.' }),
  generation: z.int(),
  replaced: z
    .array(z.object({ generation: z.int(), retiresAt: time }))
    .meta({ description: 'Older secrets, which also sign until `retiresAt`.' }),
});

/** Access to the secret: the same as for creating API keys, because the secret allows forging webhooks. */
const guardedSecret = {
  scope: 'keys:write',
  refusesViewers: 'A viewer may not see or rotate the webhook secret.',
  answer: secretSchema,
} as const;

async function showSecret(
  ctx: ParameterizedContext,
  secrets: SigningSecrets,
  organizationId: string,
): Promise<z.infer<typeof secretSchema>> {
  const [inUse, ...replaced] = await secrets.live(organizationId);
  assert(inUse, 'an organization has a secret');
  // Caches must not store the secret.
  ctx.set('Cache-Control', 'no-store');
  return {
    secret: inUse.secret,
    generation: inUse.generation,
    replaced: replaced.map(({ generation, retiresAtMs }) => ({
      generation,
      retiresAt: isoTime(retiresAtMs ?? 0),
    })),
  };
}

const noticesShownMax = 20;
const creditsMax = 1_000_000_000;

const lowBalanceCredits = z.number().min(0).max(creditsMax).nullable();

const targetSchema = z.object({
  url: z.string().nullable(),
  lowBalanceCredits,
  notices: z
    .array(
      listedWebhook
        .pick({ state: true, attempts: true, lastStatus: true, lastError: true })
        .extend({
          type: z.enum(['account.balance.low', 'key.limit.near', 'key.limit.reached']),
          createdAt: time,
          data: z.union([noticeData['account.balance.low'], noticeData['key.limit.near']]),
        }),
    )
    .meta({ description: 'The latest 20 notices, newest first, with the state of each delivery.' }),
});

/**
 * Access to the URL of notices: the same as for creating API keys, because notices contain what the organization
 * spends.
 */
const guardedTarget = {
  scope: 'keys:write',
  refusesViewers: 'A viewer may not see or change the URL of notices.',
  answer: targetSchema,
} as const;

async function showTarget(
  accountNotices: AccountNotices,
  organizationId: string,
): Promise<z.infer<typeof targetSchema>> {
  const [{ url, lowBalanceMicro }, newest] = await Promise.all([
    accountNotices.target(organizationId),
    accountNotices.list(organizationId, noticesShownMax),
  ]);
  return {
    url,
    lowBalanceCredits: lowBalanceMicro === null ? null : creditsFromMicro(lowBalanceMicro),
    notices: newest.map(isoTimes),
  };
}

/** Endpoints on the webhook secret and on notices. */
export const webhooks = section('Webhooks', {
  getWebhookSecret: defineEndpoint({
    route: 'GET /api/v1/webhooks/secret',
    ...guardedSecret,
    summary: 'Get the secret that signs your webhooks',
    handle: ({ ctx, caller }, { signingSecrets }) =>
      showSecret(ctx, signingSecrets, caller.organizationId),
  }),

  rotateWebhookSecret: defineEndpoint({
    route: 'POST /api/v1/webhooks/secret/rotate',
    ...guardedSecret,
    summary: 'Rotate the secret that signs your webhooks',
    description:
      'During the overlap (default: one day) webhooks have the signatures of both secrets. With `overlapSeconds` 0 the old secret stops at once.',
    request: {
      headers: idempotencyHeader,
      body: z.strictObject({ overlapSeconds }),
      bodyIsOptional: true,
      example: { overlapSeconds: 3600 },
    },
    answers: {
      200: {
        description: 'The new secret.',
        headers: z.object({ 'Idempotent-Replayed': z.literal('true').optional() }),
      },
    },
    async handle({ ctx, caller: { organizationId }, body }, { pool, config, signingSecrets }) {
      const idempotencyKey = idempotencyKeyOf(ctx);
      const repeated = await pool.transaction(async (connection) => {
        if (idempotencyKey !== null) {
          const path = '/webhooks/secret/rotate';
          const request = { organizationId, idempotencyKey, path, body };
          const claim = await claimKey(connection, { ...request, subjectId: 'webhook-secret' });
          if (claim.state === 'done') return true;
          await finishClaim(connection, claim.name);
        }
        const secrets = createSigningSecrets(connection, config.WEBHOOK_SIGNING_SECRET);
        await secrets.rotate(organizationId, body.overlapSeconds * 1000);
        return false;
      });
      if (repeated) ctx.set('Idempotent-Replayed', 'true');
      return showSecret(ctx, signingSecrets, organizationId);
    },
  }),

  getNotices: defineEndpoint({
    route: 'GET /api/v1/webhooks/notices',
    ...guardedTarget,
    summary: 'Get the URL for notices of low balances and key limits, and the latest notices',
    handle: ({ caller }, { accountNotices }) => showTarget(accountNotices, caller.organizationId),
  }),

  setNotices: defineEndpoint({
    route: 'PUT /api/v1/webhooks/notices',
    ...guardedTarget,
    summary: 'Set the URL for notices of low balances and key limits',
    description:
      'A notice is sent when the balance falls to `lowBalanceCredits` (the next one only after the balance was above it). ' +
      'For each key limit, a notice is sent once per period when 80 % is used, and once when the limit is reached.',
    request: {
      body: z.strictObject({
        url: z.string().max(webhookUrlLengthMax).nullable().meta({
          format: 'uri',
          description: 'https URL that receives the notices; null: no notices are sent.',
        }),
        lowBalanceCredits: lowBalanceCredits.default(null).meta({
          description: 'Balance at which a notice is sent; null: no notices of low balances.',
        }),
      }),
      example: { url: 'https://shop.example/hooks/credits', lowBalanceCredits: 100 },
    },
    async handle({ caller: { organizationId }, body }, { accountNotices, outbound }) {
      const { url, lowBalanceCredits: low } = body;
      await accountNotices.setTarget(organizationId, {
        url: url === null ? null : parseWebhookUrl(url, outbound, 'url'),
        lowBalanceMicro: low === null ? null : microFromCredits(low),
      });
      return showTarget(accountNotices, organizationId);
    },
  }),
});
