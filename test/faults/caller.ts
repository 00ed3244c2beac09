/**
 * A caller as the documentation recommends: it repeats failed requests under one Idempotency-Key.
 */
import { setTimeout as sleep } from 'node:timers/promises';

/** Request that is repeated until its job has ended. */
export interface PatientRequest {
  urls: readonly string[];
  path: string;
  key: string;
  /** Idempotency-Key and X-Request-Id of every attempt. */
  tag: string;
  body: object;
  timeoutMs: number;
}

/** Final response, as the caller sees it. */
export interface PatientAnswer {
  outcome: 'completed' | 'failed' | 'rejected' | 'no answer';
  jobId: string | null;
  /** Error code; null if there is none. */
  code: string | null;
  /** Statuses of all responses in order; 0 for a lost connection. */
  statuses: number[];
}

interface ReplyBody {
  error?: string | { code: string } | null;
  jobId?: string;
  data?: { jobId?: string; done?: boolean; status?: string; error?: { code: string } | null };
}

/** Status, body, and Retry-After in seconds. */
type Reply = [number, ReplyBody, number];

/** Repeats the request, and then polls the job, until the job has ended. */
export async function requestPatiently(request: PatientRequest): Promise<PatientAnswer> {
  const { urls, path, key, tag, body, timeoutMs } = request;
  const deadlineAt = Date.now() + timeoutMs;
  const statuses: number[] = [];
  const headers = {
    authorization: `Bearer ${key}`,
    // No compression, because the point `not-answered` reads the body of the response (points.ts).
    'accept-encoding': 'identity',
    'content-type': 'application/json',
    'idempotency-key': tag,
    'x-request-id': tag,
  };

  async function attempt(target: string, init: RequestInit): Promise<Reply> {
    const url = urls[statuses.length % urls.length] ?? '';
    try {
      const signal = AbortSignal.timeout(Math.max(1, deadlineAt - Date.now()));
      const answer = await fetch(url + target, { ...init, headers, signal });
      const jobId = answer.headers.get('x-job-id');
      const reply = { ...(jobId !== null && { jobId }), ...((await answer.json()) as ReplyBody) };
      statuses.push(answer.status);
      return [answer.status, reply, Number(answer.headers.get('retry-after') ?? 0)];
    } catch {
      statuses.push(0);
      return [0, {}, 0];
    }
  }

  const isPassing = (status: number): boolean => [0, 409, 429, 503].includes(status);
  let jobId: string | null = null;
  while (Date.now() < deadlineAt) {
    const [status, reply, retryAfterSeconds]: Reply =
      jobId === null
        ? await attempt(path, { method: 'POST', body: JSON.stringify(body) })
        : await attempt(`/api/v1/studio/jobs/${jobId}?wait=5`, { method: 'GET' });
    if (isPassing(status)) {
      await sleep(Math.min(1000, Math.max(200, retryAfterSeconds * 1000)));
      continue;
    }
    const named: string | null = reply.data?.jobId ?? reply.jobId ?? null;
    if (jobId === null) {
      if (status === 202) jobId = named;
      else if (status === 200) return { outcome: 'completed', jobId: named, code: null, statuses };
      else {
        const code = typeof reply.error === 'string' ? reply.error : null;
        return { outcome: named ? 'failed' : 'rejected', jobId: named, code, statuses };
      }
    } else if (reply.data?.done) {
      const outcome = reply.data.status === 'completed' ? 'completed' : 'failed';
      return { outcome, jobId, code: reply.data.error?.code ?? null, statuses };
    }
  }
  return { outcome: 'no answer', jobId, code: null, statuses };
}
