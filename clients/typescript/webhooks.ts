/** Verifies webhooks of the gateway (Standard Webhooks). */
import type { webhooks } from './schema.ts';

/** Body of a webhook. */
export type WebhookEvent = {
  [Type in keyof webhooks]: webhooks[Type]['post']['requestBody']['content']['application/json'];
}[keyof webhooks];

interface ReceivedWebhook {
  /** Raw text of the body, before it is parsed. */
  body: string;
  headers: Headers | Record<string, string | string[] | undefined>;
  /** Secret (`whsec_…`) from `GET /api/v1/webhooks/secret`. */
  secret: string;
  /** Maximum difference of the timestamp from the current time in seconds; 300 by default. */
  toleranceSeconds?: number;
}

/**
 * Verifies the signature and the timestamp of a webhook, and returns its event.
 * @throws Error if the secret or one of them is invalid; respond with status 400 and ignore the webhook
 */
export async function verifyWebhook(received: ReceivedWebhook): Promise<WebhookEvent> {
  const { body, secret, toleranceSeconds = 300 } = received;
  // Programs without types pass the undefined value of a missing environment variable.
  const secretBytes = decodeBase64((secret ?? '').trim().replace(/^whsec_/, ''));
  if (secretBytes.length === 0) {
    throw new Error(
      'secret must be whsec_ and base64 text, as GET /api/v1/webhooks/secret returns it.',
    );
  }
  const entries =
    received.headers instanceof Headers ? [...received.headers] : Object.entries(received.headers);
  const headers = new Map(entries.map(([name, value]) => [name.toLowerCase(), value]));
  const readHeader = (name: string): string => {
    const value = headers.get(name);
    if (typeof value !== 'string') throw new Error(`The webhook has no header ${name}.`);
    return value;
  };
  const timestamp = readHeader('webhook-timestamp');
  const ageSeconds = Date.now() / 1000 - Number(timestamp);
  if (!(Math.abs(ageSeconds) <= toleranceSeconds)) {
    throw new Error(
      `The webhook's timestamp differs from the current time by more than ${toleranceSeconds} s.`,
    );
  }
  const signed = new TextEncoder().encode(`${readHeader('webhook-id')}.${timestamp}.${body}`);
  const key = await crypto.subtle.importKey(
    'raw',
    secretBytes,
    { name: 'HMAC', hash: 'SHA-256' },
    false,
    ['verify'],
  );
  // While secrets are being replaced, the header has one signature for each secret still valid.
  for (const versioned of readHeader('webhook-signature').split(' ')) {
    const [version, signature = ''] = versioned.split(',');
    if (version !== 'v1') continue;
    if (await crypto.subtle.verify('HMAC', key, decodeBase64(signature), signed)) {
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
    // An empty secret is rejected, and an empty signature is never valid.
    return new Uint8Array();
  }
}
