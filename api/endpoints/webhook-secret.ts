/**
 * /api/v1/webhooks/secret and /api/v1/webhooks/test: returns and rotates the secret that signs
 * webhooks, and sends test webhooks (docs/webhooks.md). Webhook endpoints have both too.
 */
import { z } from 'zod';
import { createSigningSecrets, type SigningSecrets } from '../../webhooks/signing-secrets.ts';
import { assert } from '../../domain/errors.ts';
import { isoTime } from '../../domain/json.ts';
import { defineCreation } from './creation.ts';
import type { Composition } from '../composition.ts';
import { time, toData, dataSchema } from './fields.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';
import { sendMessage, signMessage } from '../../webhooks/message.ts';
import { webhookAttempt } from '../../webhooks/webhooks.ts';
import { parseWebhookUrl, webhookUrlLengthMax } from '../../studio/requests/webhook-fields.ts';

const daySeconds = 86_400;

/** Request of a rotation. */
export const rotationRequest = {
  body: z.strictObject({
    overlapSeconds: z
      .int()
      .min(0)
      .max(7 * daySeconds)
      .default(daySeconds),
  }),
  example: { overlapSeconds: 3600 },
} as const;

/** Schema of a secret with those that it replaces. */
export const secretSchema = z.object({
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
  response: secretSchema,
} as const;

/** Returns the secret of an organization or a webhook endpoint. */
export async function readSecrets(
  secrets: SigningSecrets,
  ownerId: string,
): Promise<z.infer<typeof secretSchema>> {
  const [currentSecret, ...olderSecrets] = await secrets.listActive(ownerId);
  assert(currentSecret, 'the owner has no signing secret');
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
    handle({ ctx, caller }, { signingSecrets }) {
      // Caches must not store the secret.
      ctx.set('Cache-Control', 'no-store');
      return readSecrets(signingSecrets, caller.organizationId);
    },
  }),

  rotateWebhookSecret: defineCreation({
    route: 'POST /api/v1/webhooks/secret/rotate',
    ...secretEndpointFields,
    summary: 'Rotate the secret that signs your webhooks',
    description:
      'For `overlapSeconds` (default: one day), webhooks are signed with both secrets. With 0, the old secret is no longer used.',
    request: rotationRequest,
    created: 'The new secret.',
    async create({ caller: { organizationId }, body }, { config }, connection) {
      const secrets = createSigningSecrets(connection, config.WEBHOOK_SIGNING_SECRET);
      await secrets.rotate(organizationId, body.overlapSeconds * 1000);
      return readSecrets(secrets, organizationId);
    },
  }),
});

const testEventType = 'webhook.test';

/** Result of a test webhook. */
export const webhookTestResult = webhookAttempt
  .pick({ outcome: true, status: true, error: true, response: true, durationMs: true })
  .extend({
    headers: z.record(z.string(), z.string()).meta({ description: 'The headers that were sent.' }),
    body: z.string().meta({ description: 'The body that was sent.' }),
  })
  .meta({ id: 'WebhookTest' });

interface TestDeps extends Pick<Composition, 'config' | 'outbound' | 'signingSecrets'> {
  organizationId: string;
  requestId: string;
}

/** Sends a test webhook, signed with the secrets of its owner: an organization or a webhook endpoint. */
export async function sendTest(
  { config, outbound, signingSecrets, organizationId, requestId }: TestDeps,
  { url, ownerId }: { url: string; ownerId: string },
): Promise<z.infer<typeof webhookTestResult>> {
  const data = { message: 'This is a test webhook.', organizationId };
  const event = { type: testEventType, timestamp: new Date().toISOString(), data };
  const id = `msg_${requestId.replace(/^req_/, '')}`;
  const message = await signMessage(signingSecrets, ownerId, { id, event });
  const startedAtMs = performance.now();
  const timeoutMs = config.WEBHOOK_TIMEOUT_MS;
  const delivery = await sendMessage(outbound, { url, message, timeoutMs });
  const { outcome, status, error, response } = delivery;
  const durationMs = Math.round(performance.now() - startedAtMs);
  return { outcome, status, error, response, durationMs, ...message };
}

/** Description of the endpoints that send test webhooks. */
export const testDescription = `Sends one event of type \`${testEventType}\` and waits for the response. The webhook is neither retried nor recorded.`;

/** Endpoint that sends a test webhook. */
export const webhookTest = defineSection('Webhooks', {
  testWebhook: defineEndpoint({
    route: 'POST /api/v1/webhooks/test',
    scope: 'keys:write',
    viewerError: 'A viewer may not send test webhooks.',
    summary: 'Send a test webhook, signed like a job webhook',
    description: testDescription,
    request: {
      body: z.strictObject({
        url: z
          .string()
          .max(webhookUrlLengthMax)
          .meta({ format: 'uri', description: 'HTTPS URL that receives the webhook.' }),
      }),
      example: { url: 'https://shop.example/hooks/studio' },
    },
    response: dataSchema(webhookTestResult),
    errors: ['INVALID_REQUEST'],
    async handle({ caller: { organizationId }, body, requestId }, services) {
      const url = parseWebhookUrl(body.url, services.outbound, 'url');
      assert(url !== null, 'a required webhook URL is null');
      const ownerId = organizationId;
      return toData(await sendTest({ ...services, organizationId, requestId }, { url, ownerId }));
    },
  }),
});
