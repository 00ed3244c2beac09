/** Verifies the webhooks of the service (Standard Webhooks). */
import type { webhooks } from './schema.ts';

/** Body of a webhook. */
export type WebhookEvent = {
  [Type in keyof webhooks]: webhooks[Type]['post']['requestBody']['content']['application/json'];
}[keyof webhooks];

interface ReceivedWebhook {
  /** Raw body, not parsed. */
  body: string;
  headers: Headers | Record<string, string | string[] | undefined>;
  /** Secret (`whsec_…`) of `GET /api/v1/webhooks/secret`. */
  secret: string;
  /** Largest difference between its time and now, in seconds; 300 by default. */
  toleranceSeconds?: number;
}

/**
 * Verifies the signature and the time of a webhook, and returns its event.
 * @throws Error if one of them is wrong; then respond with 400 and do nothing
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
    throw new Error('The time of the webhook is too far from now.');
  }
  const signed = new TextEncoder().encode(`${header('webhook-id')}.${timestamp}.${body}`);
  const key = await crypto.subtle.importKey(
    'raw',
    decodeBase64(secret.replace(/^whsec_/, '')),
    { name: 'HMAC', hash: 'SHA-256' },
    false,
    ['verify'],
  );
  // While the secret is being replaced, there is one signature for each secret.
  for (const signature of header('webhook-signature').split(' ')) {
    const [version, text = ''] = signature.split(',');
    if (version !== 'v1') continue;
    if (await crypto.subtle.verify('HMAC', key, decodeBase64(text), signed)) {
      // oxlint-disable-next-line no-unsafe-type-assertion -- the signature proves that the service sent it
      return JSON.parse(body) as WebhookEvent;
    }
  }
  throw new Error('The webhook has no valid signature.');
}

function decodeBase64(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    // A text that is not Base64 is not a signature.
    return new Uint8Array();
  }
}
