/** Delivers signed webhooks, and retries until the receiver responds with 2xx or all attempts are used. */
import { setTimeout } from 'node:timers/promises';
import { Agent, request as httpRequest } from 'undici';
import type { Counters } from '../counters.ts';
import { parseDurationMs, findFault } from '../faults.ts';
import type { FalRequest, RequestStore } from './requests.ts';
import { createStrangerKey, type SigningKey } from './signing-key.ts';

/** Delays between the ten delivery attempts, in milliseconds. */
const retryDelaysMs = [200, 1000, 3000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000];
const deliveryTimeoutMs = 15_000;
/** User id in all deliveries. */
const userId = 'sandbox-user';

/** How a delivery should differ from a valid one. */
interface DeliveryOptions {
  signature?: 'good' | 'bad' | 'other-key' | undefined;
  /** Offset of the signed timestamp from the actual time. */
  timestampOffsetSeconds?: number | undefined;
  /** URL to use instead of the request's webhook URL. */
  url?: string | undefined;
}

/** Response of the receiver; status 0 if it was unreachable. */
interface DeliveryResult {
  status: number;
  body: string;
}

interface WebhookSenderOptions {
  store: RequestStore;
  key: SigningKey;
  counters: Counters;
}

function buildPayload(request: FalRequest): string {
  const { requestId, gatewayRequestId, outcome } = request;
  const ids = { request_id: requestId, gateway_request_id: gatewayRequestId };
  const failed = outcome?.error === undefined ? {} : { error: outcome.error };
  const status = outcome?.error === undefined ? 'OK' : 'ERROR';
  return JSON.stringify({ ...ids, status, ...failed, payload: outcome?.body ?? null });
}

interface Delivery {
  requestId: string;
  body: string;
  options: DeliveryOptions;
}

function signHeaders(
  keys: { key: SigningKey; strangerKey: SigningKey },
  { requestId, body, options }: Delivery,
): Record<string, string> {
  const timestampSeconds = Math.floor(Date.now() / 1000) + (options.timestampOffsetSeconds ?? 0);
  const delivery = { requestId, userId, timestampSeconds, rawBody: body };
  const signature = {
    good: () => keys.key.sign(delivery),
    // Sign another body with the valid key, as if the body had been changed in transit.
    bad: () => keys.key.sign({ ...delivery, rawBody: `${body} ` }),
    'other-key': () => keys.strangerKey.sign(delivery),
  }[options.signature ?? 'good']();
  return {
    'Content-Type': 'application/json',
    'X-Fal-Webhook-Request-Id': requestId,
    'X-Fal-Webhook-User-Id': userId,
    'X-Fal-Webhook-Timestamp': String(timestampSeconds),
    'X-Fal-Webhook-Signature': signature,
  };
}

async function post(
  dispatcher: Agent,
  { url, headers, body }: { url: string; headers: Record<string, string>; body: string },
): Promise<DeliveryResult> {
  try {
    const answer = await httpRequest(url, { method: 'POST', headers, body, dispatcher });
    return { status: answer.statusCode, body: await answer.body.text() };
  } catch {
    return { status: 0, body: '' };
  }
}

/** Creates the sender of webhooks. */
export function createWebhookSender({ store, key, counters }: WebhookSenderOptions) {
  const strangerKey = createStrangerKey();
  const closing = new AbortController();
  const dispatcher = new Agent({
    headersTimeout: deliveryTimeoutMs,
    bodyTimeout: deliveryTimeoutMs,
    connect: { timeout: deliveryTimeoutMs },
  });

  const send = async (request: FalRequest, options: DeliveryOptions = {}) => {
    const body = buildPayload(request);
    const headers = signHeaders(
      { key, strangerKey },
      { requestId: request.requestId, body, options },
    );
    const result = await post(dispatcher, {
      url: options.url ?? request.webhookUrl ?? '',
      headers,
      body,
    });
    const delivered = result.status >= 200 && result.status < 300;
    counters[delivered ? 'webhooksSent' : 'webhooksFailed'] += 1;
    return result;
  };

  const pause = async (delayMs: number) => {
    try {
      await setTimeout(delayMs, undefined, { signal: closing.signal });
    } catch {
      // The sandbox is closing; callers check the signal.
    }
  };

  const deliver = async (request: FalRequest) => {
    const options = findFault(request.faults, 'bad-signature') ? { signature: 'bad' as const } : {};
    for (const delayMs of [...retryDelaysMs, 0]) {
      if (closing.signal.aborted) return;
      // Attempts are made one after the other, because each depends on the last response.
      const { status } = await send(request, options);
      if (status >= 200 && status < 300) return;
      await pause(delayMs);
    }
  };

  const notify = async (request: FalRequest) => {
    if (request.notified || findFault(request.faults, 'no-webhook')) return;
    const late = findFault(request.faults, 'late-webhook');
    if (late) await pause(parseDurationMs(late.argument, 3000));
    await deliver(request);
    if (!closing.signal.aborted) await store.markNotified(request);
  };

  return {
    /** Makes one delivery attempt. */
    send,
    /** Sends all webhooks of a finished request, with retries. */
    notify,
    /** Stops all deliveries; the next start of the sandbox resumes them. */
    close: async (): Promise<void> => {
      closing.abort();
      await dispatcher.destroy();
    },
  };
}

/** Sender of webhooks. */
export type WebhookSender = ReturnType<typeof createWebhookSender>;
