/** Webhooks that the service sends, verified as Standard Webhooks says. */
import type { webhooks } from './schema.ts';

/** What is sent to a `webhookUrl`. */
export type WebhookEvent = {
  [Type in keyof webhooks]: webhooks[Type]['post']['requestBody']['content']['application/json'];
}[keyof webhooks];

interface ReceivedWebhook {
  /** The body as it came, not parsed. */
  body: string;
  headers: Headers | Record<string, string | string[] | undefined>;
  /** `whsec_…` of `GET /api/v1/webhooks/secret`. */
  secret: string;
  /** How far its time may be from now, in seconds; 300 by default. */
  toleranceSeconds?: number;
}

/**
 * The event of a webhook that the service has signed just now.
 * @throws Error when the signature or the time is not right: answer 400 and do nothing
 */
export async function verifyWebhook(received: ReceivedWebhook): Promise<WebhookEvent> {
  const { body, secret, toleranceSeconds = 300 } = received;
  const header = (name: string): string => {
    const { headers } = received;
    const value = headers instanceof Headers ? headers.get(name) : headers[name];
    if (typeof value !== 'string') throw new Error(`The webhook has no header ${name}.`);
    return value;
  };
  const timestamp = header('webhook-timestamp');
  const ageSeconds = Date.now() / 1000 - Number(timestamp);
  if (!(Math.abs(ageSeconds) <= toleranceSeconds)) {
    throw new Error('The webhook is too old, or from the future.');
  }
  const signed = new TextEncoder().encode(`${header('webhook-id')}.${timestamp}.${body}`);
  const key = await crypto.subtle.importKey(
    'raw',
    bytesOf(secret.replace(/^whsec_/, '')),
    { name: 'HMAC', hash: 'SHA-256' },
    false,
    ['verify'],
  );
  // While a secret is replaced there is a signature of each.
  for (const signature of header('webhook-signature').split(' ')) {
    const [version, text = ''] = signature.split(',');
    if (version !== 'v1') continue;
    if (await crypto.subtle.verify('HMAC', key, bytesOf(text), signed)) {
      // oxlint-disable-next-line no-unsafe-type-assertion -- the signature says who wrote it
      return JSON.parse(body) as WebhookEvent;
    }
  }
  throw new Error('No signature of the webhook is right.');
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    // What is no base64 is no signature either.
    return new Uint8Array();
  }
}
