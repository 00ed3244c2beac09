/**
 * One attempt to tell a caller of a job's end, or of a notice (Standard Webhooks): the job as it is shown now,
 * with freshly signed URLs, signed by every secret that is live, sent once, and written down.
 */
import { Webhook } from 'standardwebhooks';
import type { Client } from '@temporalio/client';
import { assert } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import { isoTime } from '../../domain/json.ts';
import { OutboundError, type Outbound } from '../../platform/outbound.ts';
import type { JobRecord } from '../../jobs/job-record.ts';
import { parseRetryAfter } from '../providers/provider-http.ts';
import type { Notices } from './notices.ts';
import type { SigningSecrets } from './signing-secrets.ts';
import type { AttemptEnd, WebhookName, Webhooks } from './webhooks.ts';
import {
  deliverNow,
  deliveryIdOf,
  studioTaskQueue,
  webhookDeliveryType,
  webhookTaskQueue,
} from '../../jobs/contract.ts';
import { forEachAlone, type Isolated } from '../../platform/isolation.ts';
import type { Logger } from '../../platform/logger.ts';

/** Which attempt of a delivery is to be made. */
interface DeliveryAttempt extends WebhookName {
  /** Attempts of this delivery before it; decides how long the next one waits. */
  failures: number;
}

/** What became of it; `over`: there was nothing to deliver any more. */
type DeliveryOutcome =
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

/** Enough of an answer to see what went wrong. */
const responseBytesMax = 1024;

/** Activities of the webhook queue. */
export function createDeliveries(deps: DeliveryDeps) {
  return {
    attemptDelivery: async (attempt: DeliveryAttempt): Promise<DeliveryOutcome> => {
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
    /** The delivery was stopped by an operator. */
    stopDelivery: (jobId: string): Promise<void> => deps.webhooks.giveUp(jobId),
  };
}
/** See `createDeliveries`. */
export type Deliveries = ReturnType<typeof createDeliveries>;

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

interface RelayDeps {
  client: Client;
  webhooks: Webhooks;
  logger: Logger;
  taskQueuePrefix: string;
}

/** Sets deliveries going: when one is asked for again, and for those that nobody seems to make. */
export interface WebhookRelay {
  /** Delivers now, whatever became of it before; one that is under way is hurried. */
  redeliver: (name: WebhookName) => Promise<void>;
  /** Starts what is forsaken. */
  resume: () => Promise<Isolated>;
}

const startTimeoutMs = 10_000;

/** See `WebhookRelay`. */
export function createWebhookRelay(deps: RelayDeps): WebhookRelay {
  const { client, webhooks, logger } = deps;

  function optionsOf(name: WebhookName) {
    return {
      workflowId: deliveryIdOf(name.jobId),
      taskQueue: studioTaskQueue(deps.taskQueuePrefix),
      args: [{ ...name, taskQueue: webhookTaskQueue(deps.taskQueuePrefix) }],
      staticSummary: `webhook of ${name.jobId}`,
    };
  }

  async function resumeOne(name: WebhookName): Promise<void> {
    await client.withDeadline(Date.now() + startTimeoutMs, () =>
      client.workflow.start(webhookDeliveryType, {
        ...optionsOf(name),
        workflowIdConflictPolicy: 'USE_EXISTING',
      }),
    );
    await webhooks.attended(name.jobId);
    logger.info({ jobId: name.jobId }, 'webhook.resumed');
  }

  return {
    async redeliver(name) {
      await webhooks.renew(name.jobId);
      try {
        await client.withDeadline(Date.now() + startTimeoutMs, () =>
          client.workflow.signalWithStart(webhookDeliveryType, {
            ...optionsOf(name),
            signal: deliverNow,
          }),
        );
      } catch (error) {
        // It is written down as wanted: the sweeper starts it once it can.
        logger.warn({ error, jobId: name.jobId }, 'webhook.not_started');
      }
    },
    async resume() {
      const forsaken = await webhooks.forsaken();
      const named = forsaken.map((name) => ({ ...name, id: name.jobId }));
      return forEachAlone(named, resumeOne, { subject: 'webhook', logger });
    },
  };
}
