/** Requests to a stack: those of its callers, of its provider, and of clients of Temporal. */
import { Client, Connection } from '@temporalio/client';
import { expect } from 'vitest';
import type { FaultStack } from './stack.ts';

interface RequestOptions {
  /** The key of the stack's caller by default. */
  key?: string;
  /** With a body, the request is a POST. */
  body?: object;
  /** URL of an API; the first by default. */
  base?: string;
}

/** Status, Retry-After and parsed body of a response; the tests check which fields are present. */
export interface Answer {
  status: number;
  retryAfter: string | null;
  body: {
    error?: string;
    message: string;
    checks: object;
    data: {
      jobId: string;
      status: string;
      phase: string;
      why: string;
      done: boolean;
      error: object | null;
      key: string;
      billing: { charged: number };
      /** Images of a picture job, and steps of a pipeline. */
      result: {
        images: { url: string }[];
        steps: { id: string; status: string; credits: number }[];
      };
    };
    /** The secret of `/api/v1/webhooks/secret`. */
    secret: string;
    /** The window of `/api/v1/usage`. */
    window: { resetAt: string };
  };
}

/** Status and error code of a job, and the kinds of its ledger entries. */
export interface JobState {
  status: string;
  code: string | null;
  entries: string[];
}

/** States of jobs. */
export const states = {
  open: { status: 'open', code: null, entries: ['reserve'] },
  paid: { status: 'completed', code: null, entries: ['reserve', 'charge'] },
  failed: (code: string): JobState => ({ status: 'failed', code, entries: ['reserve', 'release'] }),
};

/** A request for a short chat. */
export const shortChat = {
  model: 'gpt-4o',
  messages: [{ role: 'user', content: 'hi' }],
  max_tokens: 20,
};

/** Returns functions that send requests to a stack. */
export function createCalls(stack: FaultStack) {
  async function request(
    path: string,
    { key = stack.caller.key, body, base = stack.url }: RequestOptions = {},
  ): Promise<Answer> {
    const response = await fetch(base + path, {
      method: body ? 'POST' : 'GET',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    const retryAfter = response.headers.get('retry-after');
    return { status: response.status, retryAfter, body: (await response.json()) as Answer['body'] };
  }

  async function readState(jobId: string): Promise<JobState | null> {
    const [job] = await stack.query<JobState>(
      `SELECT status, error->>'code' AS code, ARRAY(SELECT e.kind::text FROM ledger_entry e
         WHERE e.reservation_id = j.id ORDER BY e.sequence) AS entries FROM job j WHERE id = $1`,
      [jobId],
    );
    return job ?? null;
  }

  async function sandbox<Body>(path: string, body?: object, method = body ? 'POST' : 'GET') {
    const response = await fetch(`${stack.sandboxUrl}/_sandbox/${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`sandbox: ${path} answered ${response.status}`);
    return (await response.json()) as Body;
  }
  const readSubmits = (jobId: string) => sandbox<{ requestId: string }[]>(`submits?jobId=${jobId}`);

  /** Waits until the only call of a job is recorded in this state. */
  const untilCall = (jobId: string, state: string): Promise<void> =>
    expect
      .poll(() => stack.query('SELECT state FROM provider_call WHERE job_id = $1', [jobId]))
      .toEqual([{ state }]);

  return {
    request,
    /** Sends a request with the admin key. */
    requestAdmin: (path: string, body?: object) =>
      request(`/api/admin/v1${path}`, {
        key: stack.env['ADMIN_API_KEY'] ?? '',
        ...(body && { body: { actor: 'olga', reason: 'rehearsal', ...body } }),
      }),
    /** Starts an asynchronous image job; returns its id. */
    start: async (prompt: string, more: object = {}, kind = 'image'): Promise<string> => {
      const body = { prompt, async: true, ...more };
      const answer = await request(`/api/v1/studio/${kind}/generate`, { body });
      expect(answer).toMatchObject({ status: 202 });
      return answer.body.data.jobId;
    },
    readState,
    /** Waits until a job is in a state; null means that it has no row. */
    untilState: (jobId: string, state: JobState | null, interval = 100) =>
      expect.poll(() => readState(jobId), { timeout: 120_000, interval }).toEqual(state),
    sandbox,
    readSubmits,
    /** Returns how many submits of a job the provider has accepted, according to its own log. */
    countAccepted: async (jobId: string) => (await readSubmits(jobId)).length,
    untilCall,
    /** Waits until the provider has accepted a job's call, and its operation is recorded. */
    untilAccepted: (jobId: string) => untilCall(jobId, 'accepted'),
    /** Calls Temporal over a new connection, because the server may have been restarted. */
    withTemporal: async <Result>(work: (client: Client) => Promise<Result>): Promise<Result> => {
      const connection = await Connection.connect({ address: stack.env['TEMPORAL_ADDRESS'] ?? '' });
      try {
        return await work(new Client({ connection }));
      } finally {
        await connection.close();
      }
    },
  };
}
