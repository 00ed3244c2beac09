/** /api/v1/webhooks/secret: the secret that signs a caller's webhooks (docs/webhooks.md). */
import type { ParameterizedContext } from 'koa';
import { z } from 'zod';
import {
  createSigningSecrets,
  type SigningSecrets,
} from '../../activities/webhooks/signing-secrets.ts';
import { assert } from '../../domain/assert.ts';
import { isoTime } from '../../domain/iso-time.ts';
import { claimKey, finishClaim } from '../idempotency/claims.ts';
import { bodySchema } from '../middleware/body-schema.ts';
import { idempotencyHeader, idempotencyKeyOf } from '../middleware/request-headers.ts';
import { time } from './fields.ts';
import { defineOperation, section } from './operation.ts';

const daySeconds = 86_400;
const overlapSeconds = z
  .int()
  .min(0)
  .max(7 * daySeconds)
  .default(daySeconds);

const secretSchema = z.object({
  secret: z.string().meta({ description: '`whsec_…`, as Standard Webhooks libraries take it.' }),
  generation: z.int(),
  replaced: z
    .array(z.object({ generation: z.int(), retiresAt: time }))
    .meta({ description: 'Older secrets that still sign as well.' }),
});

/** Who knows the secret can forge webhooks: it is guarded as the making of keys is. */
const guarded = {
  scope: 'keys:write',
  refusesViewers: 'A viewer may not see or rotate the webhook secret.',
  answer: secretSchema,
} as const;

async function show(
  ctx: ParameterizedContext,
  secrets: SigningSecrets,
  organizationId: string,
): Promise<z.infer<typeof secretSchema>> {
  const [inUse, ...replaced] = await secrets.live(organizationId);
  assert(inUse, 'an organization has a secret');
  // No cache on the way may keep the secret.
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

/** The secret, and its rotation. */
export const webhooksSecret = section('Webhooks', {
  getWebhookSecret: defineOperation({
    route: 'GET /api/v1/webhooks/secret',
    ...guarded,
    summary: 'Get the secret that signs your webhooks',
    handle: ({ ctx, caller }, { signingSecrets }) =>
      show(ctx, signingSecrets, caller.organizationId),
  }),

  rotateWebhookSecret: defineOperation({
    route: 'POST /api/v1/webhooks/secret/rotate',
    ...guarded,
    summary: 'Rotate the secret that signs your webhooks',
    description:
      'During the overlap (default: a day) webhooks carry the signatures of both secrets. 0 ends the old one at once.',
    request: {
      headers: idempotencyHeader,
      body: bodySchema(z.strictObject({ overlapSeconds })),
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
      return show(ctx, signingSecrets, organizationId);
    },
  }),
});
