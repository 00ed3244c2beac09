/**
 * One attempt to tell a caller of a job's end, or of a notice (Standard Webhooks): the job as it is shown now,
 * with freshly signed URLs, signed by every secret that is live, sent once, and written down.
 */
import { Webhook } from 'standardwebhooks';
import { assert } from '../../domain/assert.ts';
import { isId } from '../../domain/ids.ts';
import { isoTime } from '../../domain/iso-time.ts';
import { OutboundError, type Outbound } from '../../platform/outbound.ts';
import type { JobRecord } from '../../jobs/job-record.ts';
import { parseRetryAfter } from '../providers/retry-after.ts';
import type { Notices } from './notices.ts';
import type { SigningSecrets } from './signing-secrets.ts';
import type { AttemptEnd, WebhookName, Webhooks } from './webhooks.ts';

/** Which attempt of a delivery is to be made. */
export interface DeliveryAttempt extends WebhookName {
  /** Attempts of this delivery before it; decides how long the next one waits. */
  failures: number;
}

/** What became of it; `over`: there was nothing to deliver any more. */
export type DeliveryOutcome =
  | { kind: 'delivered' | 'gone' | 'given_up' | 'over' }
  | { kind: 'retry'; waitMs: number };

/** What deliveries are made with. */
export interface DeliveryDeps {
  webhooks: Webhooks;
  signingSecrets: SigningSecrets;
  outbound: Outbound;
  /** The job, and how it is shown (studio/job-view.ts). */
  readJob: (organizationId: string, jobId: string) => Promise<JobRecord | null>;
  showJob: (job: JobRecord) => Promise<Record<string, unknown>>;
  notices: Pick<Notices, 'read'>;
  timeoutMs: number;
  retryDelaysMs: readonly number[];
}

/** Activities of the webhook queue. */
export interface Deliveries {
  attemptDelivery: (attempt: DeliveryAttempt) => Promise<DeliveryOutcome>;
  /** The delivery was stopped by an operator. */
  stopDelivery: (jobId: string) => Promise<void>;
}

/** Enough of an answer to see what went wrong. */
const responseBytesMax = 1024;

/** See `Deliveries`. */
export function createDeliveries(deps: DeliveryDeps): Deliveries {
  return {
    async attemptDelivery(attempt) {
      const begun = await deps.webhooks.begin(attempt);
      if (!begun) return { kind: 'over' };
      const message = await messageOf(deps, attempt);
      const startedAtMs = performance.now();
      const heard = await send(deps, begun.url, message);
      const retryInMs = waitAfter(deps.retryDelaysMs, heard, attempt.failures);
      const { retryAfter: _, ...told } = heard;
      const durationMs = Math.round(performance.now() - startedAtMs);
      await deps.webhooks.end(attempt.jobId, begun.number, { ...told, durationMs, retryInMs });
      if (heard.outcome !== 'failed') return { kind: heard.outcome };
      return retryInMs === null ? { kind: 'given_up' } : { kind: 'retry', waitMs: retryInMs };
    },
    stopDelivery: (jobId) => deps.webhooks.giveUp(jobId),
  };
}

interface Message {
  headers: Record<string, string>;
  body: string;
}

/** What is told. */
interface Event {
  type: string;
  timestamp: string;
  data: Record<string, unknown>;
}

async function eventOf(deps: DeliveryDeps, name: WebhookName): Promise<Event> {
  if (isId('notice', name.jobId)) {
    const { type, createdAtMs, data } = await deps.notices.read(name.jobId);
    return { type, timestamp: isoTime(createdAtMs), data };
  }
  const job = await deps.readJob(name.organizationId, name.jobId);
  assert(job && job.status !== 'queued', 'only the end of a job is told');
  return {
    type: `studio.job.${job.status}`,
    timestamp: new Date(job.completed_at ?? Date.now()).toISOString(),
    data: await deps.showJob(job),
  };
}

async function messageOf(deps: DeliveryDeps, name: WebhookName): Promise<Message> {
  const body = JSON.stringify(await eventOf(deps, name));
  // A job ends once, so its message has one id: a receiver knows a repeated one by it.
  const id = `msg_${name.jobId.replace(/^(job|ntc)_/, '')}`;
  const now = new Date();
  const live = await deps.signingSecrets.live(name.organizationId);
  return {
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': live
        .map(({ secret }) => new Webhook(secret).sign(id, now, body))
        .join(' '),
    },
    body,
  };
}

type Heard = Omit<AttemptEnd, 'durationMs' | 'retryInMs'> & {
  retryAfter: string | string[] | undefined;
};

async function send(deps: DeliveryDeps, url: string, message: Message): Promise<Heard> {
  try {
    const { status, text, retryAfter } = await deps.outbound.post(url, {
      ...message,
      timeoutMs: deps.timeoutMs,
      answerBytesMax: responseBytesMax,
    });
    return {
      outcome: status >= 200 && status < 300 ? 'delivered' : status === 410 ? 'gone' : 'failed',
      status,
      error: null,
      // Postgres keeps no NUL.
      response: text.replaceAll('\0', ''),
      retryAfter,
    };
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    const why = `${error.reason}: ${error.message}`;
    return { outcome: 'failed', status: null, error: why, response: null, retryAfter: undefined };
  }
}

/** The wait until the next attempt, at least what the receiver asked for; null after the last. */
function waitAfter(delaysMs: readonly number[], heard: Heard, failures: number): number | null {
  const delayMs = delaysMs[failures];
  if (heard.outcome !== 'failed' || delayMs === undefined) return null;
  return Math.max(delayMs, parseRetryAfter(heard.retryAfter) ?? 0);
}
