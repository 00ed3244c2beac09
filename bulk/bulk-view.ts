/** Renders bulk jobs, their items and results as responses. */
import { z } from 'zod';
import { endUserShown, splitEndUser } from '../domain/end-users.ts';
import { creditsFromMicro } from '../domain/credits.ts';
import { assert, errorTable } from '../domain/errors.ts';
import { parseExact } from '../domain/exact-numbers.ts';
import { isoTime, keysOf, type JsonObject } from '../domain/json.ts';
import { exactFields } from '../chat/formats/chat-fields.ts';
import { chatUses } from '../chat/item-chats.ts';
import { useOf } from '../studio/capabilities/capability.ts';
import { awaitingSchema } from '../studio/pipelines/approval-view.ts';
import { findCapability } from '../studio/pipelines/job-kinds.ts';
import type { DatabasePool } from '../platform/database.ts';
import type { JobReads } from '../studio/jobs/job-reads.ts';
import type { JobView } from '../studio/jobs/job-view.ts';
import { createBulkReads, type BulkRecord, type ItemWithJob } from './bulk-reads.ts';

const time = z.iso.datetime();
export const bulkStatus = z.enum(['in_progress', 'paused', 'completed', 'stopped', 'canceled']);
export const itemState = z.enum([
  'waiting',
  'running',
  'awaiting_approval',
  'completed',
  'failed',
  'canceled',
]);

/** Schema of a bulk job. */
export const bulkSchema = z
  .object({
    bulkId: z.string(),
    keyId: z.string(),
    status: bulkStatus,
    done: z.boolean().meta({ description: 'True once no job runs and none follows.' }),
    stopReason: z
      .string()
      .nullable()
      .meta({
        description:
          'Reason for `paused` (`PAUSED`, `INSUFFICIENT_CREDITS`, `JOBS_MAX_REACHED`, `KEY_LIMIT_EXCEEDED`, `WINDOW_EXHAUSTED`), `stopped` ' +
          '(`MAX_CREDITS`, `MAX_FAILED_PERCENT`, `KEY_REVOKED`, `ORGANIZATION_SUSPENDED`, `WORKFLOW_LOST`) or `canceled` (`EXPIRED`, `INVALID_INPUT`).',
      }),
    resumeAt: time.nullable().meta({
      description: 'Time at which a paused bulk job goes on by itself; null if it is unknown.',
    }),
    counts: z.object({
      total: z.int(),
      waiting: z.int(),
      running: z.int(),
      awaiting: z
        .int()
        .meta({ description: 'Started items that wait for a decision, and hold no place.' }),
      completed: z.int(),
      failed: z.int(),
      canceled: z.int(),
      invalid: z
        .int()
        .meta({ description: 'Items that were not accepted, because of `skipInvalid`.' }),
    }),
    credits: z.object({
      estimated: z.number().meta({ description: 'Price of all items when they were accepted.' }),
      reserved: z
        .number()
        .meta({ description: 'Maximum charge of the running and the awaiting items.' }),
      charged: z.number(),
      maxCredits: z.number().nullable(),
      forecast: z
        .number()
        .meta({ description: 'Expected charge of all items, at most `maxCredits`.' }),
    }),
    concurrency: z.int(),
    maxFailedPercent: z.number().nullable(),
    etaSeconds: z.int().nullable().meta({
      description: 'Expected seconds until the last item ends; null if it is unknown.',
    }),
    metadata: z.record(z.string(), z.string()),
    endUser: endUserShown,
    recipe: z
      .string()
      .nullable()
      .meta({ description: 'Recipe of the request, as `name@version`; null if it had none.' }),
    createdAt: time,
    completedAt: time.nullable(),
    expiresAt: time.nullable().meta({
      description: 'Time after which no item of a batch starts; null for other bulk jobs.',
    }),
    requestId: z.string(),
    statusUrl: z.url(),
    itemsUrl: z.url(),
    resultsUrl: z.url(),
    cancelUrl: z.url(),
  })
  .meta({ id: 'BulkJob' });
export type BulkResource = z.infer<typeof bulkSchema>;

const itemError = z
  .object({ code: z.enum(keysOf(errorTable)), message: z.string(), retryable: z.boolean() })
  .nullable();
const data = z.record(z.string(), z.unknown()).nullable().meta({
  description:
    'The same object as `data` of the endpoint, or the answer of a chat; null if the item is not completed.',
});
const chatFields = {
  chatId: z.string().nullable().meta({
    description: 'Id of the chat in usage records; null if the item is no chat or has not started.',
  }),
  text: z.string().nullable().meta({ description: 'Text of the answer of a chat.' }),
  tokens: z.object({ input: z.int(), output: z.int() }).nullable().meta({
    description: 'Tokens of a chat that has ended; null for other items.',
  }),
};
const itemRound = z
  .int()
  .meta({ description: 'Number of the attempt; `retry` starts the next one.' });

/** Schema of an item. */
export const bulkItemSchema = z
  .object({
    index: z.int(),
    id: z.string().nullable(),
    use: z.string(),
    state: itemState,
    round: itemRound,
    jobId: z.string().nullable(),
    price: z.number(),
    credits: z.number().meta({ description: 'Charged credits.' }),
    awaiting: awaitingSchema,
    ...chatFields,
    data,
    error: itemError,
    startedAt: time.nullable(),
    endedAt: time.nullable(),
  })
  .meta({ id: 'BulkItem' });
export type BulkItemResource = z.infer<typeof bulkItemSchema>;

/** Schema of a line of the results. */
export const bulkResultSchema = z
  .object({
    id: z.string().nullable(),
    index: z.int(),
    round: itemRound,
    jobId: z.string().nullable(),
    status: itemState,
    credits: z.number(),
    ...chatFields,
    data,
    error: itemError,
    cursor: z.string().meta({ description: 'As `cursor`, returns the results after this one.' }),
  })
  .meta({ id: 'BulkResult' });
export type BulkResult = z.infer<typeof bulkResultSchema>;

/** Renders a bulk job. */
function showBulk(bulk: BulkRecord, publicBaseUrl: string): BulkResource {
  const statusUrl = `${publicBaseUrl}/api/v1/studio/bulk/${bulk.id}`;
  const { total, waiting, awaiting, completed, failed, canceled, invalid } = bulk;
  const running = bulk.running - awaiting;
  return {
    bulkId: bulk.id,
    keyId: bulk.keyId,
    status: bulk.status,
    done: bulk.completedAtMs !== null,
    stopReason: bulk.stopReason,
    resumeAt: isoTime(bulk.resumeAtMs),
    counts: { total, waiting, running, awaiting, completed, failed, canceled, invalid },
    credits: {
      estimated: creditsFromMicro(bulk.estimatedMicro),
      reserved: creditsFromMicro(bulk.reservedMicro),
      charged: creditsFromMicro(bulk.chargedMicro),
      maxCredits: bulk.maxMicro === null ? null : creditsFromMicro(bulk.maxMicro),
      forecast: creditsFromMicro(forecastMicro(bulk)),
    },
    concurrency: bulk.concurrency,
    maxFailedPercent: bulk.maxFailedPercent,
    etaSeconds: estimateSeconds(bulk),
    ...splitEndUser(bulk.metadata),
    recipe: bulk.recipe,
    createdAt: isoTime(bulk.createdAtMs),
    completedAt: isoTime(bulk.completedAtMs),
    expiresAt: isoTime(bulk.expiresAtMs),
    requestId: bulk.requestId,
    statusUrl,
    itemsUrl: `${statusUrl}/items`,
    resultsUrl: `${statusUrl}/results`,
    cancelUrl: `${statusUrl}/cancel`,
  };
}

/**
 * Creates the function that renders an event for its webhook: the bulk job, with the status and the
 * reason at the time of the event.
 */
export function createBulkEventReader(
  { pool, reads }: { pool: DatabasePool; reads: JobReads },
  publicBaseUrl: string,
) {
  const bulkReads = createBulkReads(pool, reads);
  return async (organizationId: string, eventId: string) => {
    const event = await bulkReads.readEvent(eventId);
    const bulk = event && (await bulkReads.read(organizationId, event.bulkId));
    assert(event && bulk, 'cannot send a webhook for a bulk job that does not exist');
    const { type, stopReason } = event;
    const shown = showBulk({ ...bulk, status: type, stopReason }, publicBaseUrl);
    return { type: `studio.bulk.${type}`, timestamp: isoTime(event.createdAtMs), data: shown };
  };
}

export type BulkView = ReturnType<typeof createBulkView>;

/** Creates the functions that render bulk jobs. */
export function createBulkView({ publicBaseUrl, view }: { publicBaseUrl: string; view: JobView }) {
  async function showItem({ item, job }: ItemWithJob): Promise<BulkItemResource> {
    const reason = findDeletion({ item, job });
    const chat = showChat(item);
    const error = reason ? { code: reason, message: errorTable[reason].message } : item.error;
    const code = keysOf(errorTable).find((known) => known === error?.code);
    const capability = findCapability(item.type);
    return {
      index: item.index,
      id: item.item_id,
      use: capability ? useOf(capability) : item.type,
      state: item.state,
      round: item.round,
      jobId: item.is_chat ? null : item.job_id,
      price: creditsFromMicro(item.price),
      credits: creditsFromMicro(item.charged),
      awaiting: job ? await view.awaiting(job) : [],
      ...chat.fields,
      data: job ? await view.result(job) : chat.data,
      error:
        error && code
          ? { code, message: error.message, retryable: errorTable[code].retryable }
          : null,
      startedAt: isoTime(item.claimed_at),
      endedAt: isoTime(item.ended_at),
    };
  }

  return {
    resource: (bulk: BulkRecord): BulkResource => showBulk(bulk, publicBaseUrl),
    item: showItem,
    /** Renders a line of the results. */
    async result(ended: ItemWithJob): Promise<BulkResult> {
      const { state: status, ...shown } = await showItem(ended);
      const { id, index, round, jobId, credits, chatId, text, tokens, error } = shown;
      const { data: result } = shown;
      const cursor = String(ended.item.end_number);
      const ids = { id, index, round, jobId, chatId };
      return { ...ids, status, credits, text, tokens, data: result, error, cursor };
    },
  };
}

/** Returns the reason why the result of a completed item is gone; null if it is not. */
function findDeletion({ item, job }: ItemWithJob) {
  if (job) return job.mediaDeletedAtMs === null ? null : 'MEDIA_DELETED';
  if (item.state !== 'completed') return null;
  if (!item.is_chat) return 'JOB_ARCHIVED';
  return item.answer === null ? 'ANSWER_DELETED' : null;
}

/** Shows what only chats have: id, text, tokens, and the answer in the format of its endpoint. */
function showChat(item: ItemWithJob['item']) {
  const { type, answer, input_tokens: input, output_tokens: output } = item;
  // oxlint-disable-next-line no-unsafe-type-assertion -- the text was written by a presentation
  const found = answer === null ? null : (parseExact(answer, exactFields) as JsonObject);
  const tokens = input === null || output === null ? null : { input, output };
  return {
    data: found,
    fields: {
      chatId: item.is_chat ? item.job_id : null,
      text: found && (chatUses.get(type)?.readText(found) ?? null),
      tokens,
    },
  };
}

/** Forecasts the charge of all items from the share of their prices that ended ones were charged. */
function forecastMicro(bulk: BulkRecord): number {
  const { chargedMicro: charged, endedPriceMicro: ended } = bulk;
  const share = ended > 0 && charged > 0 ? charged / ended : 1;
  const open = bulk.completedAtMs === null ? bulk.reservedMicro + bulk.waitingPriceMicro : 0;
  return Math.min(charged + Math.round(open * share), bulk.maxMicro ?? Number.MAX_SAFE_INTEGER);
}

/** Estimates the time until the last item ends from the ends of the last ones. */
function estimateSeconds(bulk: BulkRecord): number | null {
  const { status, recentEnds: ends, recentMs: ms, waiting, running, awaiting } = bulk;
  if (bulk.completedAtMs !== null) return 0;
  if (awaiting > 0 || status !== 'in_progress' || ms === null || ends < 2) return null;
  return Math.ceil(((waiting + running) * ms) / ends / 1000);
}
