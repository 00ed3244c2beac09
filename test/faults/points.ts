/**
 * The points at which a process can be killed. The product has no hook for them: the entry
 * points in this folder start the real processes and wrap the methods of their services, so
 * production has no switch for it.
 */
import { ServerResponse } from 'node:http';
import type { Client } from '@temporalio/client';
import type { Services } from '../../process/services.ts';

/** Points in the order in which a job reaches them. */
export const points = [
  'before-start',
  'reserved',
  'between-steps',
  'before-submit',
  'accepted',
  'waiting',
  'result-known',
  'mid-store',
  'stored',
  'charged',
  'not-answered',
] as const;

/** Point of a job. `waiting` is read from the sandbox's log; at the others, the process waits. */
export type Point = (typeof points)[number];

/** Message of a process that has reached a point. */
export interface Arrival {
  point: Point;
  /** Id of the job, or of the request if no job is known. */
  subject: string;
  /** Index of the call; null if the point belongs to the whole job. */
  call: number | null;
}

/** Reports the point, and returns when the control server has responded or cannot be reached. */
async function reach(point: Point, subject: string, call: number | null = null): Promise<void> {
  const controlUrl = process.env['FAULT_CONTROL_URL'];
  if (controlUrl === undefined) throw new Error('FAULT_CONTROL_URL is not set');
  const body = JSON.stringify({ point, subject, call } satisfies Arrival);
  await fetch(controlUrl, { method: 'POST', body }).catch(() => {});
}

type Method<Args extends unknown[], Out> = (...args: Args) => Promise<Out>;

/** Reservation that is settled. */
interface Settled {
  id: string;
  to: 'charged' | 'released';
}

interface Stops<Args extends unknown[], Out> {
  before?: (...args: Args) => Promise<void>;
  after?: (out: Out, ...args: Args) => Promise<void>;
}

function wrap<Args extends unknown[], Out>(
  method: Method<Args, Out>,
  { before, after }: Stops<Args, Out>,
): Method<Args, Out> {
  return async (...args) => {
    await before?.(...args);
    const out = await method(...args);
    await after?.(out, ...args);
    return out;
  };
}

/** Finds the ids in an Idempotency-Key of a call or in the key of a stored output. */
function findCall(text: string): [jobId: string, call: number] {
  const [, jobId = text, call] = /(job_[0-9a-f]{32})(?:[:/](\d+))?/.exec(text) ?? [];
  return [jobId, Number(call)];
}

/** Wraps the services so that activities wait at their points. */
export function stopActivities(services: Services): void {
  const { ledger, chatLedger, providers, records, artifacts, storage } = services;
  ledger.reserve = wrap(ledger.reserve, { after: (_, { id }) => reach('reserved', id) });
  chatLedger.reserve = wrap(chatLedger.reserve, { after: (_, { id }) => reach('reserved', id) });
  records.begin = wrap(records.begin, {
    before: ({ jobId, callIndex }) => reach('between-steps', jobId, callIndex),
  });
  for (const provider of providers.values()) {
    provider.submit = wrap(provider.submit, {
      before: ({ idempotencyKey }) => reach('before-submit', ...findCall(idempotencyKey)),
      after: (_, { idempotencyKey }) => reach('accepted', ...findCall(idempotencyKey)),
    });
  }
  artifacts.store = wrap(artifacts.store, {
    before: (_, { place }) => reach('result-known', place.jobId, place.callIndex),
  });
  storage.put = wrap(storage.put, {
    // Inputs are stored before a job exists.
    before: async (key) => {
      if (key.includes('/job_')) await reach('mid-store', ...findCall(key));
    },
  });
  const settlement = {
    before: async ({ id, to }: Settled) => {
      if (to === 'charged') await reach('stored', id);
    },
    after: async (_: unknown, { id, to }: Settled) => {
      if (to === 'charged') await reach('charged', id);
    },
  };
  ledger.settle = wrap(ledger.settle, settlement);
  chatLedger.settle = wrap(chatLedger.settle, settlement);
}

/** Wraps the client so that it waits before it starts a workflow. */
export function stopStarts(client: Client): void {
  const { workflowService } = client.connection;
  const start = workflowService.startWorkflowExecution.bind(workflowService);
  const stopped = async (request: Parameters<typeof start>[0]) => {
    await reach('before-start', request.workflowId ?? '');
    return start(request);
  };
  Object.assign(workflowService, { startWorkflowExecution: stopped });
}

/** Wraps responses so that the API waits before it sends the end of a job. */
export function stopAnswers(): void {
  const { prototype } = ServerResponse;
  // oxlint-disable-next-line typescript/unbound-method -- bound again at each call
  const { end } = prototype;
  const stopped = function (this: ServerResponse, ...args: unknown[]): ServerResponse {
    const finish = () => Reflect.apply(end, this, args);
    const [body] = args;
    const { method = '', url = '' } = this.req;
    const isStudio = url.startsWith('/api/v1/studio/');
    const done = method === 'POST' || (typeof body === 'string' && body.includes('"done":true'));
    if (!isStudio || this.statusCode !== 200 || !done) return finish();
    void reach('not-answered', String(this.getHeader('x-request-id'))).then(finish);
    return this;
  };
  Object.assign(prototype, { end: stopped });
}
