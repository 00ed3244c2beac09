/** POST /api/v1/webhooks/test: sends a test webhook and returns the receiver's response. */
import { z } from 'zod';
import { assert } from '../../domain/errors.ts';
import { sendMessage, signMessage } from '../../webhooks/message.ts';
import { webhookAttempt } from '../../webhooks/webhooks.ts';
import { parseWebhookUrl, webhookUrlLengthMax } from './webhook-fields.ts';
import { toData, dataSchema } from './fields.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';

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
    answer: dataSchema(webhookTestResult),
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
