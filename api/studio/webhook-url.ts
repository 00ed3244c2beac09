/**
 * URLs that are told of something: the `webhookUrl` of a Studio request, which is no capability's own field, so it
 * is split off before theirs; and that of notices.
 */
import { z } from 'zod';
import { fieldError, type GatewayError } from '../../domain/errors.ts';
import { OutboundError, type Outbound } from '../../platform/outbound.ts';

/** Characters of a URL that is told of something, at most. */
export const webhookUrlLengthMax = 2048;

/** The field as it is described in every Studio request. */
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
 * The URL as it is called; null when the request has none. Its name is resolved when it is called.
 * @throws GatewayError INVALID_REQUEST, which names `field`
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
