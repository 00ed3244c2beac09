/** Signs and sends webhook messages (Standard Webhooks). */
import { Webhook } from 'standardwebhooks';
import { OutboundError, type Outbound } from '../platform/outbound.ts';
import type { SigningSecrets } from './signing-secrets.ts';
import type { AttemptResult } from './webhooks.ts';

/** Body of a webhook request; `timestamp` is in ISO 8601. */
export interface WebhookEvent {
  type: string;
  timestamp: string;
  data: Record<string, unknown>;
}

/** Signed request of a webhook. */
export interface WebhookMessage {
  headers: Record<string, string>;
  body: string;
}

/** Result of sending a message once. */
export type SendResult = Omit<AttemptResult, 'durationMs' | 'retryInMs'>;

/** Maximum number of bytes of a response body that are recorded. */
const responseBytesMax = 1024;

/**
 * Creates the message for an event, signed with every active secret of an organization or a webhook
 * endpoint. `id` becomes the header `webhook-id`.
 */
export async function signMessage(
  signingSecrets: Pick<SigningSecrets, 'listActive'>,
  ownerId: string,
  { id, event }: { id: string; event: WebhookEvent },
): Promise<WebhookMessage> {
  const body = JSON.stringify(event);
  const now = new Date();
  const activeSecrets = await signingSecrets.listActive(ownerId);
  return {
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': activeSecrets
        .map(({ secret }) => new Webhook(secret).sign(id, now, body))
        .join(' '),
    },
    body,
  };
}

interface SendOptions {
  url: string;
  message: WebhookMessage;
  timeoutMs: number;
}

/** Sends a message once. `retryAfter` is the `Retry-After` header of the response. */
export async function sendMessage(
  outbound: Pick<Outbound, 'post'>,
  { url, message, timeoutMs }: SendOptions,
): Promise<SendResult & { retryAfter: string | string[] | undefined }> {
  try {
    const { status, text, retryAfter, redirectsTo } = await outbound.post(url, {
      ...message,
      timeoutMs,
      responseBytesMax,
    });
    return {
      outcome: status >= 200 && status < 300 ? 'delivered' : status === 410 ? 'gone' : 'failed',
      status,
      error:
        redirectsTo &&
        `The receiver redirects to ${redirectsTo}. Redirects are not followed: use this address.`,
      // Postgres text cannot contain NUL.
      response: text.replaceAll('\0', ''),
      retryAfter,
    };
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    const text = `${error.reason}: ${error.message}`;
    return { outcome: 'failed', status: null, error: text, response: null, retryAfter: undefined };
  }
}
