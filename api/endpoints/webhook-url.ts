/** Parses webhook URLs: the `webhookUrl` of a Studio request, and the URL of account notices. */
import { fieldError, type GatewayError } from '../../domain/errors.ts';
import { OutboundError, type Outbound } from '../../platform/outbound.ts';

/** Maximum length of a webhook URL in characters. */
export const webhookUrlLengthMax = 2048;

/**
 * Parses a webhook URL. Returns null if the request has none. The host name is resolved only when a
 * webhook is sent.
 * @throws GatewayError INVALID_REQUEST naming `field`
 */
export function parseWebhookUrl(
  input: unknown,
  outbound: Outbound,
  field = 'webhookUrl',
): string | null {
  const createError = (message: string): GatewayError =>
    fieldError('INVALID_REQUEST', field, message);
  if (input === undefined) return null;
  if (typeof input !== 'string') throw createError('must be a URL');
  if (input.length > webhookUrlLengthMax) {
    throw createError(`must have at most ${webhookUrlLengthMax} characters`);
  }
  try {
    return outbound.check(input).href;
  } catch (error) {
    if (error instanceof OutboundError) throw createError(error.message);
    throw error;
  }
}
