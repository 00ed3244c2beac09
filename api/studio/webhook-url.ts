/** The `webhookUrl` of a Studio request: no capability's own field, so it is split off before theirs. */
import { z } from 'zod';
import { fieldError, type GatewayError } from '../../domain/errors.ts';
import { OutboundError, type Outbound } from '../../platform/outbound.ts';

const lengthMax = 2048;

/** The field as it is described in every Studio request. */
export const webhookFields = {
  webhookUrl: z
    .url({ protocol: /^https$/ })
    .max(lengthMax)
    .optional()
    .meta({
      description: 'https URL that is told when the job has ended: docs/webhooks.md.',
    }),
};

/**
 * The URL as it is called; null when the request has none. Its name is resolved when it is called.
 * @throws GatewayError INVALID_REQUEST
 */
export function parseWebhookUrl(given: unknown, outbound: Outbound): string | null {
  if (given === undefined) return null;
  if (typeof given !== 'string') throw refusal('must be a URL');
  if (given.length > lengthMax) throw refusal(`must have at most ${lengthMax} characters`);
  try {
    return outbound.check(given).href;
  } catch (error) {
    if (error instanceof OutboundError) throw refusal(error.message);
    throw error;
  }
}

function refusal(message: string): GatewayError {
  return fieldError('INVALID_REQUEST', 'webhookUrl', message);
}
