/**
 * Decides about items of a bulk job whose pipelines await an approval: each by the code of a single
 * decision, with a verdict of its own.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { errorTable, fieldError, GatewayError } from '../domain/errors.ts';
import { asRecord, keysOf } from '../domain/json.ts';
import type { DatabasePool } from '../platform/database.ts';
import { paceWork } from '../platform/work-turns.ts';
import type { JobRecord } from '../studio/jobs/job-reads.ts';
import { stepId } from '../studio/pipelines/pipeline-requests.ts';
import {
  decideStep,
  decisionFields,
  type DecisionCall,
  type DecisionServices,
} from '../studio/requests/decisions.ts';
import { isInState, type BulkRecord } from './bulk-reads.ts';

/** Number of items that are decided at the same time. */
const parallelMax = 8;
/** Time after which a request begins no further decision, in milliseconds. */
const decidingMaxMs = 20_000;

/** Fields that choose the items of a decision. */
export const itemChoice = {
  items: z
    .union([
      z.literal('all'),
      z
        .array(z.union([z.string().min(1).max(128), z.int().min(0).max(9999)]))
        .min(1)
        .max(1000),
    ])
    .meta({
      description: 'Ids or indexes of the items, or `all` that await an approval.',
      example: ['sku-1'],
    }),
  awaitingBefore: z.iso.datetime({ offset: true }).max(40).optional().meta({
    description:
      'Only with `"items": "all"`: leaves out items that began to wait at this time or later, which you may not have seen.',
  }),
  step: stepId.optional().meta({
    description: 'Id of the step; may be omitted if only one step of the pipeline has `approve`.',
  }),
};

/** Schema of the request that decides about items. */
export const bulkDecisionRequest = z.discriminatedUnion('decision', [
  z.strictObject({ ...decisionFields.approve, ...itemChoice }).meta({ id: 'ItemsApproved' }),
  z.strictObject({ ...decisionFields.reject, ...itemChoice }).meta({ id: 'ItemsRejected' }),
]);

const decidedItem = z
  .object({
    index: z.int(),
    id: z.string().nullable(),
    jobId: z.string().nullable(),
    replayed: z.boolean().meta({ description: 'True if the same decision was made before.' }),
    error: z
      .object({ code: z.enum(keysOf(errorTable)), message: z.string() })
      .nullable()
      .meta({ description: 'Reason why the decision does not count; null if it counts.' }),
  })
  .meta({ id: 'DecidedItem' });
type DecidedItem = z.infer<typeof decidedItem>;

/** Schema of the decisions about items. */
export const bulkDecisionsSchema = z
  .object({
    decided: z.int().meta({ description: 'Number of items for which the decision counts.' }),
    remaining: z.int().meta({
      description:
        'Number of chosen items that this request had no time for. Send the same request again.',
    }),
    items: z.array(decidedItem),
  })
  .meta({ id: 'BulkDecisions' });

/** Decision about items of a bulk job, with its caller. */
interface BulkDecisionCall extends Pick<DecisionCall, 'caller' | 'countCopied' | 'requestId'> {
  bulk: BulkRecord;
  body: z.infer<typeof bulkDecisionRequest>;
}

const chosenItem = z.object({
  index: z.number(),
  id: z.string().nullable(),
  jobId: z.string().nullable(),
});
type ChosenItem = z.infer<typeof chosenItem>;

/**
 * Reads the items that a decision names by index or id, or all that await an approval since before a
 * time. The order is random, so that items that cannot be decided do not keep a repeated request from
 * the others.
 */
export function chooseItems(
  pool: DatabasePool,
  { id }: Pick<BulkRecord, 'id'>,
  { items, awaitingBefore, step }: BulkDecisionCall['body'],
): Promise<readonly ChosenItem[]> {
  const names = items === 'all' ? [] : items;
  const beforeMs = awaitingBefore === undefined ? Infinity : Date.parse(awaitingBefore);
  const ids = names.filter((one) => typeof one === 'string');
  const indexes = names.filter((one) => typeof one === 'number');
  const isChosen =
    items === 'all'
      ? sql.fragment`${isInState('awaiting_approval')} AND EXISTS (
          SELECT FROM jsonb_each(j.approvals) AS step WHERE step.value->'end' = 'null'
            AND step.key = coalesce(${step ?? null}, step.key) AND (step.value->>'sinceMs')::float8 < ${String(beforeMs)}::float8)`
      : sql.fragment`(i.item_id = ANY (${sql.array(ids, 'text')})
          OR i.index = ANY (${sql.array(indexes, 'int4')}))`;
  return pool.any(sql.type(chosenItem)`
    SELECT i.index, i.item_id AS id, i.job_id AS "jobId" FROM bulk_item i
      LEFT JOIN job j ON j.id = i.job_id AND i.state = 'running'
    WHERE i.bulk_id = ${id} AND ${isChosen} ORDER BY random()`);
}

interface Services extends DecisionServices {
  pool: DatabasePool;
}

/**
 * Decides about items until all are decided or the time is over. A repeated request changes nothing.
 * @throws GatewayError INVALID_REQUEST if an item does not exist; FORBIDDEN if no item may be decided;
 * SERVICE_UNAVAILABLE if no item can be decided now
 */
export async function decideItems(
  { bulk, body, ...call }: BulkDecisionCall,
  services: Services,
): Promise<z.infer<typeof bulkDecisionsSchema>> {
  const { items: named, awaitingBefore, step, ...decision } = body;
  if (awaitingBefore !== undefined && named !== 'all')
    throw fieldError('INVALID_REQUEST', 'awaitingBefore', 'requires "items": "all"');
  const chosen = await chooseItems(services.pool, bulk, body);
  if (named !== 'all') throwIfUnknown(named, chosen);
  const endMs = performance.now() + decidingMaxMs;
  const pace = paceWork(call.caller.organizationId);
  const waiting = [...chosen];
  const items: DecidedItem[] = [];
  const decideNext = async (): Promise<void> => {
    while (performance.now() < endMs) {
      const item = waiting.shift();
      if (!item) return;
      await pace();
      items.push(await decideItem(item, { ...call, decision, step }, services));
    }
  };
  await Promise.all(Array.from({ length: parallelMax }, decideNext)).finally(() => {
    waiting.length = 0;
  });
  const remaining = chosen.length - items.length;
  const decided = items.filter(({ error }) => !error).length;
  const [first] = items;
  for (const code of ['FORBIDDEN', 'SERVICE_UNAVAILABLE'] as const) {
    if (first?.error && items.every(({ error }) => error?.code === code))
      throw new GatewayError(code, first.error.message);
  }
  return { decided, remaining, items: items.toSorted((one, two) => one.index - two.index) };
}

/** @throws GatewayError INVALID_REQUEST naming the first item that does not exist */
function throwIfUnknown(named: readonly (number | string)[], chosen: readonly ChosenItem[]): void {
  const known = new Set(chosen.flatMap(({ index, id }) => [index, id]));
  const position = named.findIndex((one) => !known.has(one));
  if (position < 0) return;
  const message = `must be the id or the index of an item of the bulk job; received ${JSON.stringify(named[position])}`;
  throw fieldError('INVALID_REQUEST', `items.${position}`, message);
}

/**
 * Decides about an item. A job whose workflow does not confirm the decision keeps no other item from
 * being decided. @throws any unknown error
 */
async function decideItem(
  item: ChosenItem,
  { step, ...call }: Omit<DecisionCall, 'job' | 'stepId'> & { step: string | undefined },
  services: Services,
): Promise<DecidedItem> {
  try {
    const { organizationId } = call.caller;
    const job = item.jobId === null ? null : await services.reads.read(organizationId, item.jobId);
    if (!job) throw new GatewayError('NOT_AWAITING', 'The item has not started.');
    const { replayed } = await decideStep(
      { ...call, job, stepId: step ?? findOnlyApproval(job) },
      services,
    );
    return { ...item, replayed, error: null };
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    const { code, message, status } = error;
    if (status >= 500 && code !== 'SERVICE_UNAVAILABLE') throw error;
    return { ...item, replayed: false, error: { code, message } };
  }
}

/** Returns the id of the only step with `approve`. @throws GatewayError NOT_AWAITING or INVALID_REQUEST */
function findOnlyApproval({ request }: JobRecord): string {
  const steps = Array.isArray(request['steps']) ? request['steps'].map(asRecord) : [];
  const [only, ...others] = steps.filter(({ approve }) => approve).map(({ id }) => String(id));
  if (only === undefined) throw new GatewayError('NOT_AWAITING');
  if (others.length === 0) return only;
  const message = `is required: ${[only, ...others].join(', ')} have approve`;
  throw fieldError('INVALID_REQUEST', 'step', message);
}
