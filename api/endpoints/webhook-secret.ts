/**
 * /api/v1/webhooks/secret: returns and rotates the secret that signs webhooks (docs/webhooks.md).
 */
import type { ParameterizedContext } from 'koa';
import { z } from 'zod';
import { createSigningSecrets, type SigningSecrets } from '../../webhooks/signing-secrets.ts';
import { assert } from '../../domain/errors.ts';
import { isoTime } from '../../domain/json.ts';
import { claimInTransaction } from '../../ledger/claims.ts';
import { idempotencyHeader, parseIdempotencyKey } from '../http/request-headers.ts';
import { time } from './fields.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';

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
    .meta({ description: 'Older secrets; webhooks are also signed with them until `retiresAt`.' }),
});

/** Fields of both endpoints. Access is as for creating keys: the secret allows forging webhooks. */
const secretEndpointFields = {
  scope: 'keys:write',
  viewerError: 'A viewer may not see or rotate the webhook secret.',
  answer: secretSchema,
} as const;

async function buildSecretResponse(
  ctx: ParameterizedContext,
  secrets: SigningSecrets,
  organizationId: string,
): Promise<z.infer<typeof secretSchema>> {
  const [currentSecret, ...olderSecrets] = await secrets.listActive(organizationId);
  assert(currentSecret, 'the organization has no signing secret');
  // Caches must not store the secret.
  ctx.set('Cache-Control', 'no-store');
  return {
    secret: currentSecret.secret,
    generation: currentSecret.generation,
    replaced: olderSecrets.map(({ generation, retiresAtMs }) => ({
      generation,
      retiresAt: isoTime(retiresAtMs ?? 0),
    })),
  };
}

/** Endpoints that return and rotate the webhook secret. */
export const webhookSecret = defineSection('Webhooks', {
  getWebhookSecret: defineEndpoint({
    route: 'GET /api/v1/webhooks/secret',
    ...secretEndpointFields,
    summary: 'Get the secret that signs your webhooks',
    handle: ({ ctx, caller }, { signingSecrets }) =>
      buildSecretResponse(ctx, signingSecrets, caller.organizationId),
  }),

  rotateWebhookSecret: defineEndpoint({
    route: 'POST /api/v1/webhooks/secret/rotate',
    ...secretEndpointFields,
    summary: 'Rotate the secret that signs your webhooks',
    description:
      'For `overlapSeconds` (default: one day), webhooks are signed with both secrets. With 0, the old secret is no longer used.',
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
      const path = '/webhooks/secret/rotate';
      const idempotencyKey = parseIdempotencyKey(ctx);
      const request = { organizationId, idempotencyKey, path, body, subjectId: 'webhook-secret' };
      const isRepeated = await pool.transaction(async (connection) => {
        if ((await claimInTransaction(connection, request)) !== null) return true;
        const secrets = createSigningSecrets(connection, config.WEBHOOK_SIGNING_SECRET);
        await secrets.rotate(organizationId, body.overlapSeconds * 1000);
        return false;
      });
      if (isRepeated) ctx.set('Idempotent-Replayed', 'true');
      return buildSecretResponse(ctx, signingSecrets, organizationId);
    },
  }),
});
