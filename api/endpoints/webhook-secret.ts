/**
 * /api/v1/webhooks/secret: returns and rotates the secret that signs webhooks (docs/webhooks.md).
 */
import { z } from 'zod';
import { createSigningSecrets, type SigningSecrets } from '../../webhooks/signing-secrets.ts';
import { assert } from '../../domain/errors.ts';
import { isoTime } from '../../domain/json.ts';
import { defineCreation } from './creation.ts';
import { time, toData, dataSchema } from './fields.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';
import { sendMessage, signMessage } from '../../webhooks/message.ts';
import { webhookAttempt } from '../../webhooks/webhooks.ts';
import { parseWebhookUrl, webhookUrlLengthMax } from '../../studio/requests/webhook-fields.ts';

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
  response: secretSchema,
} as const;

async function readSecrets(
  secrets: SigningSecrets,
  organizationId: string,
): Promise<z.infer<typeof secretSchema>> {
  const [currentSecret, ...olderSecrets] = await secrets.listActive(organizationId);
  assert(currentSecret, 'the organization has no signing secret');
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
    request: {
      body: z.strictObject({ overlapSeconds }),
      bodyIsOptional: true,
      example: { overlapSeconds: 3600 },
    },
    created: 'The new secret.',
    async create({ caller: { organizationId }, body }, { config }, connection) {
      const secrets = createSigningSecrets(connection, config.WEBHOOK_SIGNING_SECRET);
      await secrets.rotate(organizationId, body.overlapSeconds * 1000);
      return readSecrets(secrets, organizationId);
    },
  }),
});

const testEventType = 'webhook.test';

const webhookTestResult = webhookAttempt
  .pick({ outcome: true, status: true, error: true, response: true, durationMs: true })
  .extend({
    headers: z.record(z.string(), z.string()).meta({ description: 'The headers that were sent.' }),
    body: z.string().meta({ description: 'The body that was sent.' }),
  })
  .meta({ id: 'WebhookTest' });

/** Endpoint that sends a test webhook. */
export const webhookTest = defineSection('Webhooks', {
  testWebhook: defineEndpoint({
    route: 'POST /api/v1/webhooks/test',
    scope: 'keys:write',
    viewerError: 'A viewer may not send test webhooks.',
    summary: 'Send a test webhook, signed like a job webhook',
    description: `Sends one event of type \`${testEventType}\` and waits for the response. The webhook is neither retried nor recorded.`,
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
    async handle(
      { caller: { organizationId }, body, requestId },
      { config, outbound, signingSecrets },
    ) {
      const url = parseWebhookUrl(body.url, outbound, 'url');
      assert(url !== null, 'a required webhook URL is null');
      const data = { message: 'This is a test webhook.', organizationId };
      const event = { type: testEventType, timestamp: new Date().toISOString(), data };
      const id = `msg_${requestId.replace(/^req_/, '')}`;
      const message = await signMessage(signingSecrets, organizationId, { id, event });
      const startedAtMs = performance.now();
      const timeoutMs = config.WEBHOOK_TIMEOUT_MS;
      const delivery = await sendMessage(outbound, { url, message, timeoutMs });
      const { outcome, status, error, response } = delivery;
      const durationMs = Math.round(performance.now() - startedAtMs);
      return toData({ outcome, status, error, response, durationMs, ...message });
    },
  }),
});
