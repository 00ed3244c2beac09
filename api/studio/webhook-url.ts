/**
 * URLs that receive webhooks: the `webhookUrl` of a Studio request, which is split off before the
 * capability parses its own fields, and the URL of account notices.
 */
import { z } from 'zod';
import { fieldError, type GatewayError } from '../../domain/errors.ts';
import { OutboundError, type Outbound } from '../../platform/outbound.ts';

/** Longest URL, in characters. */
export const webhookUrlLengthMax = 2048;

/** The field `webhookUrl`, as every Studio request describes it. */
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
 * Returns the checked URL; null if the request has none. The name is resolved when the webhook is
 * sent.
 * @throws GatewayError INVALID_REQUEST naming `field`
 */
export function parseWebhookUrl(
  given: unknown,
  outbound: Outbound,
  field = 'webhookUrl',
): string | null {
  const refusal = (message: string): GatewayError => fieldError('INVALID_REQUEST', field, message);
  if (given === undefined) return null;
  if (typeof given !== 'string') throw refusal('must be a URL');
  if (given.length > webhookUrlLengthMax) {
    throw refusal(`must have at most ${webhookUrlLengthMax} characters`);
  }
  try {
    return outbound.check(given).href;
  } catch (error) {
    if (error instanceof OutboundError) throw refusal(error.message);
    throw error;
  }
}
