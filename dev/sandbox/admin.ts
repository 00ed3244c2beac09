/** Admin routes of the sandbox (`/_sandbox/*`), with which tests read its logs and set its faults. They need no key. */
import { z } from 'zod';
import type { CallLog } from './calls/call-log.ts';
import type { Counters } from './counters.ts';
import type { Fal } from './fal/fal.ts';
import type { FaultBook } from './faults.ts';
import { sendJson, readJson, type Exchange, type Route } from './http.ts';
import type { MediaSize } from './media/media.ts';

interface AdminOptions {
  fal: Pick<Fal, 'store' | 'webhooks'>;
  calls: CallLog;
  faults: FaultBook;
  counters: Counters;
  mediaSize: MediaSize;
}

const faultRule = z.strictObject({
  match: z.string().optional(),
  faults: z.string().min(1),
  times: z.int().positive().optional(),
});

const mediaSize = z.strictObject({ tiny: z.boolean() });

const deliveryOptions = z
  .strictObject({
    signature: z.enum(['good', 'bad', 'other-key']),
    timestampOffsetSeconds: z.int(),
    url: z.url(),
  })
  .partial();

/** Request that a provider accepted, as it appears in the log. */
interface Submit {
  requestId: string;
  endpoint: string;
  acceptedAtMs: number;
  body: unknown;
  /** URL of the webhook; only fal has webhooks. */
  webhookUrl: string | null;
  /** Request headers; only logged for providers that respond with the result. */
  idempotencyKey: string | null;
  clientRequestId: string | null;
}

function* listSubmits({ fal, calls }: Pick<AdminOptions, 'fal' | 'calls'>): Generator<Submit> {
  for (const { requestId, endpointId: endpoint, ...rest } of fal.store.all()) {
    const { acceptedAtMs, body, webhookUrl } = rest;
    const headers = { idempotencyKey: null, clientRequestId: null };
    yield { requestId, endpoint, acceptedAtMs, body, webhookUrl, ...headers };
  }
  for (const call of calls.all()) yield { ...call, webhookUrl: null };
}

function matches(submit: Submit, query: URLSearchParams): boolean {
  const { endpoint, body, webhookUrl, idempotencyKey, clientRequestId } = submit;
  const jobId = query.get('jobId');
  const idTexts = [webhookUrl, idempotencyKey, clientRequestId];
  if (jobId !== null && !idTexts.some((text) => text?.includes(jobId))) return false;
  const match = query.get('match');
  return match === null || `${endpoint}\n${JSON.stringify(body)}`.includes(match);
}

/** Returns the accepted requests that match the query parameters `jobId` and `match`, oldest first. */
function findSubmits(options: AdminOptions, query: URLSearchParams) {
  const found = [...listSubmits(options)].filter((submit) => matches(submit, query));
  return found
    .toSorted((a, b) => a.acceptedAtMs - b.acceptedAtMs)
    .map(({ acceptedAtMs, ...submit }) => ({
      ...submit,
      acceptedAt: new Date(acceptedAtMs).toISOString(),
    }));
}

const respondWith = (read: (exchange: Exchange) => unknown) => (exchange: Exchange) =>
  sendJson(exchange, { status: 200, body: read(exchange) });

/** Returns the admin routes. */
export function adminRoutes(options: AdminOptions): Route[] {
  const { fal, faults, counters } = options;
  const addFault = async (exchange: Exchange) => {
    const parsed = faultRule.safeParse(await readJson(exchange));
    try {
      if (!parsed.success) throw new RangeError(z.prettifyError(parsed.error));
      faults.add(parsed.data);
      sendJson(exchange, { status: 201, body: { ok: true } });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      sendJson(exchange, { status: 422, body: { detail: error.message } });
    }
  };
  const resend = async (exchange: Exchange) => {
    const request = fal.store.get(exchange.params['requestId'] ?? '');
    const parsed = deliveryOptions.safeParse((await readJson(exchange)) ?? {});
    // An unfinished request is allowed too, so that tests can send a notification before the result exists.
    if (!request) {
      sendJson(exchange, { status: 404, body: { detail: 'No such request' } });
    } else if (parsed.success) {
      const result = await fal.webhooks.send(request, parsed.data);
      sendJson(exchange, { status: 200, body: result });
    } else {
      sendJson(exchange, { status: 422, body: { detail: z.prettifyError(parsed.error) } });
    }
  };
  const resize = async (exchange: Exchange) => {
    const size = mediaSize.parse(await readJson(exchange));
    sendJson(exchange, { status: 200, body: Object.assign(options.mediaSize, size) });
  };
  const clearFaults = () => {
    faults.clear();
    return { ok: true };
  };
  return [
    [
      'GET',
      /^\/_sandbox\/submits$/,
      respondWith(({ url }) => findSubmits(options, url.searchParams)),
    ],
    ['GET', /^\/_sandbox\/counters$/, respondWith(() => counters)],
    ['POST', /^\/_sandbox\/faults$/, addFault],
    ['DELETE', /^\/_sandbox\/faults$/, respondWith(clearFaults)],
    ['PUT', /^\/_sandbox\/media-size$/, resize],
    ['POST', /^\/_sandbox\/webhooks\/(?<requestId>[^/]+)$/, resend],
    ['GET', /^\/healthz$/, respondWith(() => ({ status: 'ok' }))],
  ];
}
