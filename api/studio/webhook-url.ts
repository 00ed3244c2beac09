/**
 * Webhook URLs: the `webhookUrl` of a Studio request, and the URL of notices. `webhookUrl` belongs
 * to no capability, so it is removed from the request before the capability's schema parses it.
 */
import { z } from 'zod';
import { fieldError, type GatewayError } from '../../domain/errors.ts';
import { OutboundError } from '../../platform/outbound-addresses.ts';
import type { Outbound } from '../../platform/outbound.ts';

/** Highest number of characters of a webhook URL. */
export const webhookUrlLengthMax = 2048;

/** Field `webhookUrl` with its description, for the schema of every Studio request. */
export const webhookFields = {
  webhookUrl: z
    .url({ protocol: /^https$/ })
    .max(webhookUrlLengthMax)
    .optional()
    .meta({
      description: 'https URL that is called when the job has ended: docs/webhooks.md.',
    }),
};

/**
 * Parses a webhook URL; returns null if the request has none. The host name is resolved only when a
 * webhook is sent.
 * @throws GatewayError INVALID_REQUEST naming `field`
 */
export function parseWebhookUrl(
  input: unknown,
  outbound: Outbound,
  field = 'webhookUrl',
): string | null {
  const refusal = (message: string): GatewayError => fieldError('INVALID_REQUEST', field, message);
  if (input === undefined) return null;
  if (typeof input !== 'string') throw refusal('must be a URL');
  if (input.length > webhookUrlLengthMax) {
    throw refusal(`must have at most ${webhookUrlLengthMax} characters`);
  }
  try {
    return outbound.check(input).href;
  } catch (error) {
    if (error instanceof OutboundError) throw refusal(error.message);
    throw error;
  }
}
