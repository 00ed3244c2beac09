/** /api/v1/studio/bulk: starts, gets, lists and changes bulk jobs. */
import { isArchived } from '../../ledger/ledger-reads.ts';
import { formatJsonLine } from '../../domain/event-lines.ts';
import { Readable } from 'node:stream';
import type { ParameterizedContext } from 'koa';
import { z } from 'zod';
import { formatInTurns } from '../../platform/work-turns.ts';
import { creditsFromMicro, microFromCredits } from '../../domain/credits.ts';
import { GatewayError, type ErrorCode } from '../../domain/errors.ts';
import { acceptBulk, bulkOptions, checkItems } from '../../bulk/bulk-intake.ts';
import {
  bulkDecisionRequest,
  bulkDecisionsSchema,
  decideItems,
} from '../../bulk/bulk-decisions.ts';
import { commandBulk, type BulkCommand } from '../../bulk/bulk-commands.ts';
import type { BulkRecord } from '../../bulk/bulk-reads.ts';
import {
  bulkItemSchema,
  bulkResultSchema,
  bulkSchema,
  bulkStatus,
  itemState,
} from '../../bulk/bulk-view.ts';
import type { Composition } from '../composition.ts';
import { csvFields, formatCsvHeader } from '../http/csv.ts';
import { endUserHeader, parsePreferredWaitMs, spendingHeaders } from '../http/request-headers.ts';
import { closedSignal, countBytes } from '../middleware/request-shares.ts';
import { respondWithEvents } from '../http/event-stream.ts';
import { bulkBody, bulkLine, readBulk } from './bulk-requests.ts';
import { formatResultRow, resultColumns } from './bulk-results-csv.ts';
import {
  defineEndpoint,
  defineSection,
  rawResponse,
  type Endpoint,
  type EndpointCall,
} from './endpoint.ts';
import { getRequiredScope } from '../../studio/capabilities/capability.ts';
import { pipelines } from '../../studio/pipelines/pipeline-requests.ts';
import { decisionErrors } from './studio-jobs.ts';
import { dataSchema, pageSchema, pathId, showInTurns, toData, toPage } from './fields.ts';

const path = '/api/v1/studio/bulk';
/** Path parameters of a bulk job. */
export const bulkRequest = { params: z.object({ bulkId: pathId('bulk') }) };
const longPollMaxMs = 60_000;
const invalidItems = z
  .array(z.object({ path: z.string(), message: z.string() }))
  .meta({ description: 'The first 50 invalid items, which were skipped.' });
const bulkResponse = dataSchema(bulkSchema);
const exampleItem = { id: 'sku-1', use: 'image/generate', body: { prompt: 'a red lamp' } };
const content = {
  'application/json': { schema: bulkBody, example: { items: [exampleItem], maxCredits: 3000 } },
  'application/x-ndjson': { schema: bulkLine, example: exampleItem },
};
const bodyDescription =
  'Send JSON with `items`, or newline-delimited JSON: an item in each line, and the other fields as `{"options": {…}}` in an optional first line.';
const itemErrors: readonly ErrorCode[] = ['CONFLICTING_FIELDS', 'STORAGE_QUOTA_EXCEEDED'];
const estimateSchema = z
  .object({
    credits: z.number().meta({ description: 'Maximum charge of all items.' }),
    creditsBeforeApproval: z.number().optional().meta({
      description:
        'Most that is spent before the first decisions; absent if no item waits for one.',
    }),
    items: z.int(),
    invalid: z.int(),
    invalidItems,
    uses: z.array(z.object({ use: z.string(), items: z.int(), credits: z.number() })),
  })
  .meta({ id: 'BulkEstimate' });

type BulkCall = Pick<EndpointCall<typeof bulkRequest>, 'caller' | 'params'>;

/** Returns the bulk job with the id in the path. @throws GatewayError BULK_NOT_FOUND or JOB_ARCHIVED */
export async function findBulk(
  { caller, params: { bulkId } }: BulkCall,
  { bulkReads, pool }: Pick<Composition, 'bulkReads' | 'pool'>,
): Promise<BulkRecord> {
  const { organizationId } = caller;
  const bulk = await bulkReads.read(organizationId, bulkId);
  if (bulk) return bulk;
  const archived = await isArchived(pool, bulkId, organizationId);
  throw new GatewayError(archived ? 'JOB_ARCHIVED' : 'BULK_NOT_FOUND');
}

function showBulk(
  ctx: ParameterizedContext,
  bulk: BulkRecord,
  { bulkView }: Pick<Composition, 'bulkView'>,
): z.infer<typeof bulkResponse> {
  if (bulk.completedAtMs === null) ctx.set('Retry-After', '2');
  return toData(bulkView.resource(bulk));
}

/** Declares an endpoint that changes a bulk job. */
function defineCommand<Body extends z.ZodObject>(
  name: BulkCommand['command'],
  {
    body,
    toCommand,
    ...described
  }: {
    summary: string;
    description: string;
    body: Body;
    toCommand: (body: EndpointCall<{ body: Body }>['body']) => BulkCommand;
  },
): Endpoint {
  return defineEndpoint({
    route: `POST ${path}/:bulkId/${name}`,
    scope: 'studio:read',
    viewerError: 'A viewer may not change bulk jobs.',
    ...described,
    request: { ...bulkRequest, body },
    response: bulkResponse,
    errors: ['BULK_NOT_FOUND', 'JOB_ARCHIVED', 'BULK_ALREADY_DONE', 'BULK_LIMIT_REACHED'],
    async handle({ ctx, body: fields, ...call }, services) {
      const bulk = await findBulk(call, services);
      await commandBulk({ bulk, caller: call.caller }, toCommand(fields), services);
      return showBulk(ctx, await findBulk(call, services), services);
    },
  });
}

const noFields = z.strictObject({});
const limitFields = z.strictObject({
  maxCredits: bulkOptions.maxCredits,
  maxFailedPercent: bulkOptions.maxFailedPercent,
  concurrency: bulkOptions.concurrency.unwrap().optional(),
});

interface ResultListing {
  format: 'ndjson' | 'csv';
  bom: 'true' | 'false';
  afterEnd: number;
  takeTurn: () => Promise<() => void>;
}

/**
 * Yields the results after a number in portions, as NDJSON or CSV. `takeTurn` is awaited before each
 * portion, and returns the function that ends its turn.
 */
async function* writeResults(
  bulk: BulkRecord,
  { format, bom, afterEnd, takeTurn }: ResultListing,
  { bulkReads, bulkView }: Pick<Composition, 'bulkReads' | 'bulkView'>,
): AsyncGenerator<string> {
  if (format === 'csv') yield formatCsvHeader(resultColumns, bom);
  yield* formatInTurns(bulkReads.results(bulk, afterEnd), takeTurn, async (portion) => {
    const results = await Promise.all(portion.map((item) => bulkView.result(item)));
    return results
      .map((result) => (format === 'csv' ? formatResultRow(result) : `${formatJsonLine(result)}\n`))
      .join('');
  });
}

/** Bulk endpoints. */
export const bulkJobs = defineSection('Bulk jobs', {
  startBulk: defineEndpoint({
    route: `POST ${path}`,
    scope: 'bulk:*',
    summary: 'Start a bulk job: up to 10,000 requests with a budget',
    description: `All items are checked and priced first; with any invalid item, nothing is started. Credits are reserved only for running items. ${bodyDescription}`,
    request: {
      headers: spendingHeaders,
      query: z.strictObject({}),
      content,
    },
    response: z.unknown(),
    responses: {
      202: {
        description: 'The bulk job was accepted. Poll `statusUrl`.',
        headers: z.object({
          Location: z.url(),
          'Retry-After': z.int(),
          'Idempotent-Replayed': z.literal('true').optional(),
        }),
        schema: dataSchema(bulkSchema.extend({ invalidItems: invalidItems.optional() })),
      },
    },
    errors: [...itemErrors, 'INSUFFICIENT_CREDITS', 'BULK_LIMIT_REACHED', 'CANCELED'],
    async handle({ ctx }, services) {
      const accepted = await readBulk(ctx, services, (submission) =>
        acceptBulk(submission, services),
      );
      const { bulkId, replayed } = accepted;
      await services.bulkWorkflows.wake(bulkId);
      const bulk = await findBulk({ caller: ctx.state.caller, params: { bulkId } }, services);
      const { data, success } = showBulk(ctx, bulk, services);
      if (replayed) ctx.set('Idempotent-Replayed', 'true');
      ctx.set({ Location: data.statusUrl, 'Retry-After': '2' });
      ctx.status = 202;
      const { invalidItems: skipped } = bulk;
      return { success, data: { ...data, ...(skipped.length > 0 && { invalidItems: skipped }) } };
    },
  }),

  estimateBulk: defineEndpoint({
    route: `POST ${path}/estimate`,
    scope: 'bulk:*',
    summary: 'Estimate the price of a bulk job',
    description: `Accepts the same body, and checks and prices all items. Nothing is started. ${bodyDescription}`,
    request: { headers: endUserHeader, content },
    response: dataSchema(estimateSchema),
    errors: [...itemErrors, 'CANCELED'],
    handle: ({ ctx }, services) =>
      readBulk(ctx, services, async (submission) => {
        const uses = new Map<string, { items: number; micro: number }>();
        let beforeMicro = 0;
        const prices = await services.priceBook.at(submission.caller.organizationId);
        const {
          count,
          priceMicro,
          invalid,
          invalidItems: shown,
        } = await checkItems({ ...submission, prices }, services, async (items) => {
          for (const item of items) {
            beforeMicro += item.beforeApprovalMicro;
            const sum = uses.get(item.use) ?? { items: 0, micro: 0 };
            uses.set(item.use, { items: sum.items + 1, micro: sum.micro + item.priceMicro });
          }
        });
        return toData({
          credits: creditsFromMicro(priceMicro),
          ...(beforeMicro < priceMicro && {
            creditsBeforeApproval: creditsFromMicro(beforeMicro),
          }),
          items: count,
          invalid,
          invalidItems: shown,
          uses: [...uses].map(([use, { items, micro }]) => ({
            use,
            items,
            credits: creditsFromMicro(micro),
          })),
        });
      }),
  }),

  listBulks: defineEndpoint({
    route: `GET ${path}`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'List bulk jobs, newest first',
    request: {
      query: z.strictObject({
        status: bulkStatus.optional(),
        limit: z.coerce.number().int().min(1).max(100).default(20),
        cursor: z
          .string()
          .regex(/^bulk_[0-9a-f]{32}$/, 'must be the nextCursor of an earlier page')
          .optional(),
      }),
    },
    response: pageSchema(bulkSchema),
    async handle({ caller, query: { status, cursor, limit } }, { bulkReads, bulkView }) {
      const filter = { status, beforeId: cursor, limit: limit + 1 };
      const rows = await bulkReads.list(caller.organizationId, filter);
      return toPage(rows, { limit, cursor: 'id', show: bulkView.resource });
    },
  }),

  getBulk: defineEndpoint({
    route: `GET ${path}/:bulkId`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'Get a bulk job',
    description:
      'With `wait`, the server responds when the bulk job has ended, but at the latest after `wait` seconds.',
    request: {
      ...bulkRequest,
      query: z.strictObject({ wait: z.coerce.number().min(0).max(60).optional() }),
    },
    response: bulkResponse,
    errors: ['BULK_NOT_FOUND', 'JOB_ARCHIVED'],
    async handle({ ctx, query, ...call }, services) {
      const bulk = await findBulk(call, services);
      const waitMs = parsePreferredWaitMs(ctx, (query.wait ?? 0) * 1000, longPollMaxMs);
      if (waitMs === 0 || bulk.completedAtMs !== null) return showBulk(ctx, bulk, services);
      ctx.state.endTurn?.();
      const { organizationId } = call.caller;
      const awaited = { organizationId, id: bulk.id, signal: closedSignal(ctx) };
      return showBulk(ctx, (await services.bulkWaits.awaitEnd(awaited, waitMs)) ?? bulk, services);
    },
  }),

  listBulkItems: defineEndpoint({
    route: `GET ${path}/:bulkId/items`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'List the items of a bulk job in their order',
    request: {
      ...bulkRequest,
      query: z.strictObject({
        state: itemState.optional(),
        limit: z.coerce.number().int().min(1).max(100).default(50),
        cursor: z
          .string()
          .regex(/^\d{1,5}$/, 'must be the nextCursor of an earlier page')
          .optional(),
      }),
    },
    response: pageSchema(bulkItemSchema),
    errors: ['BULK_NOT_FOUND', 'JOB_ARCHIVED'],
    async handle({ query: { state, limit, cursor }, ...call }, services) {
      const bulk = await findBulk(call, services);
      const afterIndex = cursor === undefined ? undefined : Number(cursor);
      const read = await services.bulkReads.items(bulk, { state, afterIndex, limit });
      const { organizationId } = call.caller;
      const items = await showInTurns(organizationId, read.items, services.bulkView.item);
      const nextCursor = read.hasMore ? String(items.at(-1)?.index) : null;
      return { ...toData(items), hasMore: read.hasMore, nextCursor };
    },
  }),

  getBulkResults: defineEndpoint({
    route: `GET ${path}/:bulkId/results`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'Get the results of the ended items, as NDJSON or CSV',
    description:
      'Can be read while the bulk job runs. The results are in the order in which the items ended. With the `cursor` of a result, only those after it are returned; a retried item has a further result, with the next `round`. URLs are signed for this response.',
    request: {
      ...bulkRequest,
      query: z.strictObject({
        format: z.enum(['ndjson', 'csv']).default('ndjson'),
        ...csvFields,
        cursor: z
          .string()
          .regex(/^\d{1,15}$/, 'must be the cursor of a result')
          .optional(),
      }),
    },
    response: rawResponse,
    responses: {
      200: {
        description: 'The results, one in each line; as CSV with `format=csv`.',
        type: 'application/x-ndjson',
        schema: bulkResultSchema,
        textTypes: ['text/csv'],
      },
    },
    errors: ['BULK_NOT_FOUND', 'JOB_ARCHIVED'],
    async handle({ ctx, query: { format, bom, cursor = '0' }, ...call }, services) {
      const bulk = await findBulk(call, services);
      ctx.set('Content-Disposition', `attachment; filename="${bulk.id}.${format}"`);
      ctx.type = format === 'csv' ? 'text/csv; charset=utf-8' : 'application/x-ndjson';
      ctx.status = 200;
      const takeTurn = () => services.shares.takeTurn(ctx);
      const listing = { format, bom, afterEnd: Number(cursor), takeTurn };
      const results = writeResults(bulk, listing, services);
      ctx.body = Readable.from(results, { objectMode: false });
    },
  }),

  streamBulk: defineEndpoint({
    route: `GET ${path}/:bulkId/events`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'Stream the changes of a bulk job',
    description:
      'Sends server-sent events named `bulk`, each with the bulk job, at most one a second. The stream ends when the bulk job has ended.',
    request: bulkRequest,
    response: rawResponse,
    responses: {
      200: {
        description: 'The events.',
        type: 'text/event-stream',
        schema: z.object({ event: z.literal('bulk'), data: z.string() }),
      },
    },
    errors: ['BULK_NOT_FOUND', 'JOB_ARCHIVED'],
    async handle({ ctx, ...call }, services) {
      const bulk = await findBulk(call, services);
      const listCurrent = () => Promise.resolve([bulk]);
      await respondWithEvents(
        ctx,
        { caller: call.caller, id: bulk.id, listCurrent },
        services.bulkFeed,
      );
    },
  }),

  decideBulkItems: defineEndpoint({
    route: `POST ${path}/:bulkId/decisions`,
    scope: getRequiredScope(pipelines),
    summary: 'Approve or reject items that wait for a decision',
    description:
      'The decision is made for each item, as by the endpoint of a single step, and has a verdict for each. ' +
      'A request that is sent again decides only about items that are not decided yet.',
    request: { ...bulkRequest, body: bulkDecisionRequest },
    response: dataSchema(bulkDecisionsSchema),
    errors: [...decisionErrors, 'BULK_NOT_FOUND', 'JOB_ARCHIVED'],
    async handle({ ctx, requestId, body, ...call }, services) {
      const bulk = await findBulk(call, services);
      const { caller } = call;
      const countCopied = (bytes: number) => countBytes(ctx, { kind: 'spool', bytes });
      return toData(await decideItems({ bulk, body, caller, requestId, countCopied }, services));
    },
  }),

  cancelBulk: defineCommand('cancel', {
    summary: 'Cancel a bulk job',
    description:
      'Cancels the waiting items. With `"items": "all"`, cancellation of the running jobs is requested too.',
    body: z.strictObject({ items: z.enum(['waiting', 'all']).default('waiting') }),
    toCommand: ({ items }) => ({ command: 'cancel', all: items === 'all' }),
  }),

  pauseBulk: defineCommand('pause', {
    summary: 'Pause a bulk job',
    description: 'No further item starts until it is resumed. Running jobs continue.',
    body: noFields,
    toCommand: () => ({ command: 'pause' }),
  }),

  resumeBulk: defineCommand('resume', {
    summary: 'Resume a paused or stopped bulk job, with other limits if they are set',
    description: 'Without effect if it is in progress.',
    body: limitFields,
    toCommand: ({ maxCredits, maxFailedPercent, concurrency }) => ({
      command: 'resume',
      ...(maxCredits !== undefined && { maxCredits: microFromCredits(maxCredits) }),
      ...(maxFailedPercent !== undefined && { maxFailedPercent }),
      ...(concurrency !== undefined && { concurrency }),
    }),
  }),

  retryBulk: defineCommand('retry', {
    summary: 'Start the failed items of a bulk job once more',
    description: 'Each failed item gets a new job. Also possible after the end of the bulk job.',
    body: noFields,
    toCommand: () => ({ command: 'retry' }),
  }),
});
