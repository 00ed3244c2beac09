/** The witness and the fault switches of the sandbox, for tests: `/_sandbox/*`. No key needed. */
import { z } from 'zod';
import type { Counters } from './counters.ts';
import type { Fal } from './fal/fal.ts';
import type { FalRequest } from './fal/requests.ts';
import type { FaultBook } from './faults.ts';
import { answerJson, readJson, type Exchange, type Route } from './http.ts';

interface AdminOptions {
  fal: Pick<Fal, 'store' | 'webhooks'>;
  faults: FaultBook;
  counters: Counters;
}

const faultRule = z.strictObject({
  match: z.string().optional(),
  faults: z.string().min(1),
  times: z.int().positive().optional(),
});

const deliveryOptions = z
  .strictObject({
    signature: z.enum(['good', 'bad', 'other-key']),
    timestampOffsetSeconds: z.int(),
    url: z.url(),
  })
  .partial();

/** An accepted submit as the log holds it. */
function witness(request: FalRequest) {
  const { requestId, endpointId, acceptedAtMs, body, webhookUrl } = request;
  const acceptedAt = new Date(acceptedAtMs).toISOString();
  return { requestId, endpoint: endpointId, acceptedAt, body, webhookUrl };
}

function matches(request: FalRequest, query: URLSearchParams): boolean {
  const match = query.get('match');
  const jobId = query.get('jobId');
  if (jobId !== null && !(request.webhookUrl ?? '').includes(jobId)) return false;
  if (match === null) return true;
  return `${request.endpointId}\n${JSON.stringify(request.body)}`.includes(match);
}

/** The admin routes. */
export function adminRoutes({ fal, faults, counters }: AdminOptions): Route[] {
  const addFault = async (exchange: Exchange) => {
    const parsed = faultRule.safeParse(await readJson(exchange));
    try {
      if (!parsed.success) throw new RangeError(z.prettifyError(parsed.error));
      faults.add(parsed.data);
      answerJson(exchange, { status: 201, body: { ok: true } });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      answerJson(exchange, { status: 422, body: { detail: error.message } });
    }
  };
  const resend = async (exchange: Exchange) => {
    const request = fal.store.get(exchange.params['requestId'] ?? '');
    const parsed = deliveryOptions.safeParse((await readJson(exchange)) ?? {});
    // An unfinished request may be named too: a premature notification is one of the tests.
    if (!request) {
      answerJson(exchange, { status: 404, body: { detail: 'No such request' } });
    } else if (parsed.success) {
      const result = await fal.webhooks.send(request, parsed.data);
      answerJson(exchange, { status: 200, body: result });
    } else {
      answerJson(exchange, { status: 422, body: { detail: z.prettifyError(parsed.error) } });
    }
  };
  return [
    {
      method: 'GET',
      pattern: /^\/_sandbox\/submits$/,
      handle: (exchange) => {
        const found = [...fal.store.all()].filter((one) => matches(one, exchange.url.searchParams));
        answerJson(exchange, { status: 200, body: found.map((one) => witness(one)) });
      },
    },
    {
      method: 'GET',
      pattern: /^\/_sandbox\/counters$/,
      handle: (exchange) => answerJson(exchange, { status: 200, body: counters }),
    },
    { method: 'POST', pattern: /^\/_sandbox\/faults$/, handle: addFault },
    {
      method: 'DELETE',
      pattern: /^\/_sandbox\/faults$/,
      handle: (exchange) => {
        faults.clear();
        answerJson(exchange, { status: 200, body: { ok: true } });
      },
    },
    { method: 'POST', pattern: /^\/_sandbox\/webhooks\/(?<requestId>[^/]+)$/, handle: resend },
    {
      method: 'GET',
      pattern: /^\/healthz$/,
      handle: (exchange) => answerJson(exchange, { status: 200, body: { status: 'ok' } }),
    },
  ];
}
