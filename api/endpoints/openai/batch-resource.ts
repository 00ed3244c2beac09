/** /api/v1/batches: creates, gets, lists and cancels batches as in OpenAI's API. A batch is a bulk job (bulk/batches.ts). */
import { z } from 'zod';
import { acceptBatch, batchConcurrency } from '../../../bulk/batches.ts';
import { batchSchema, showBatch } from '../../../bulk/batch-view.ts';
import { commandBulk } from '../../../bulk/bulk-commands.ts';
import { bulkOptions } from '../../../bulk/bulk-intake.ts';
import { batchFields } from '../../../bulk/bulk-reads.ts';
import { splitEndUser } from '../../../domain/end-users.ts';
import { fieldError, GatewayError, renameFields } from '../../../domain/errors.ts';
import { metadataFields, parseMetadata } from '../../../domain/metadata.ts';
import { linesContentType } from '../../../storage/storage.ts';
import type { Composition } from '../../composition.ts';
import { parseLines, type JsonLine } from '../../http/json-lines.ts';
import {
  completeEndUser,
  parseIdempotencyKey,
  spendingHeaders,
} from '../../http/request-headers.ts';
import { closedSignal, countBytes } from '../../middleware/request-shares.ts';
import { findBulk } from '../bulk-jobs.ts';
import { defineEndpoint, type EndpointCall } from '../endpoint.ts';
import { openaiListOf, pathId, toOpenaiList } from '../fields.ts';

const path = '/api/v1/batches';
const batchRequest = { params: z.object({ bulkId: pathId('bulk') }) };

const body = z.object({
  input_file_id: z.string().max(64).meta({ description: 'File with a request in each line.' }),
  endpoint: batchFields.shape.endpoint.meta({ id: 'BatchEndpoint' }),
  completion_window: z.literal('24h'),
  metadata: metadataFields.metadata,
  maxCredits: bulkOptions.maxCredits,
  endUser: metadataFields.endUser,
  output_expires_after: z
    .null('must be absent: answers are deleted 30 days after the end of the batch')
    .optional(),
});

/** Returns the batch with the id in the path. @throws GatewayError NOT_FOUND, JOB_ARCHIVED */
async function findBatch(
  call: Pick<EndpointCall<typeof batchRequest>, 'caller' | 'params'>,
  services: Composition,
) {
  const bulk = await findBulk(call, services);
  const batch = showBatch(bulk);
  if (!batch) throw new GatewayError('BULK_NOT_FOUND');
  return { bulk, batch };
}

/**
 * Opens the lines of an input file.
 * @throws GatewayError NOT_FOUND if the organization has no such file; INVALID_REQUEST if it has too many lines
 */
async function* readInput(
  { caller, fileId }: { caller: EndpointCall['caller']; fileId: string },
  { uploads, storage }: Composition,
): AsyncGenerator<JsonLine> {
  const upload = await uploads.find(fileId);
  const isOwn = upload?.organization_id === caller.organizationId;
  const type = isOwn ? await uploads.confirm(upload) : null;
  const object =
    upload && type === linesContentType ? await storage.open(upload.storage_key) : null;
  if (!object) throw fieldError('NOT_FOUND', 'input_file_id', 'No such file of the purpose batch.');
  try {
    yield* parseLines(object.stream);
  } catch (error) {
    throw renameFields(error, () => 'input_file_id');
  }
}

/** Endpoints of batches. */
export const batches = {
  createBatch: defineEndpoint({
    route: `POST ${path}`,
    scope: 'chat',
    errorFormat: 'openai',
    summary: 'Create a batch (OpenAI-compatible)',
    description:
      'Starts a bulk job of the requests in a file. If a line is no request, the batch has the status `failed` and lists the `errors`. ' +
      'A request that its endpoint would reject is in the error file. `maxCredits` limits the credits of the batch.',
    request: {
      headers: spendingHeaders,
      body,
      example: {
        input_file_id: 'file_0198f0a3c5d17c2f8a4e6b90d3175c28',
        endpoint: '/v1/chat/completions',
        completion_window: '24h',
      },
    },
    response: batchSchema,
    responses: {
      200: {
        description: 'The batch.',
        headers: z.object({ 'Idempotent-Replayed': z.literal('true').optional() }),
      },
    },
    errors: [
      'NOT_FOUND',
      'CONFLICTING_FIELDS',
      'STORAGE_QUOTA_EXCEEDED',
      'INSUFFICIENT_CREDITS',
      'BULK_LIMIT_REACHED',
      'CANCELED',
    ],
    async handle({ ctx, caller, body: fields, requestId }, services) {
      const { input_file_id: inputFileId, endpoint, maxCredits } = fields;
      const metadata = completeEndUser(ctx, parseMetadata(fields));
      const { endUser, metadata: pairs } = splitEndUser(metadata);
      const options = {
        concurrency: batchConcurrency,
        skipInvalid: false,
        maxCredits,
        metadata: pairs,
        // The Idempotency-Key identifies the end user too.
        endUser,
      };
      const { bulkId, replayed } = await acceptBatch(
        {
          caller,
          requestId,
          idempotencyKey: parseIdempotencyKey(ctx),
          options,
          metadata,
          batch: { inputFileId, endpoint },
          countCopied: (bytes) => countBytes(ctx, { kind: 'spool', bytes }),
          signal: closedSignal(ctx),
        },
        () => readInput({ caller, fileId: inputFileId }, services),
        services,
      );
      const { bulk, batch } = await findBatch({ caller, params: { bulkId } }, services);
      if (bulk.completedAtMs === null) await services.bulkWorkflows.wake(bulkId);
      if (replayed) ctx.set('Idempotent-Replayed', 'true');
      return batch;
    },
  }),

  listBatches: defineEndpoint({
    route: `GET ${path}`,
    scope: 'studio:read',
    bucket: 'polls',
    errorFormat: 'openai',
    summary: 'List batches, newest first (OpenAI-compatible)',
    request: {
      query: z.object({
        after: pathId('bulk').optional(),
        limit: z.coerce.number().int().min(1).max(100).default(20),
      }),
    },
    response: openaiListOf(batchSchema),
    async handle({ caller, query: { after, limit } }, { bulkReads }) {
      const listing = { beforeId: after, batches: true as const, limit: limit + 1 };
      const rows = await bulkReads.list(caller.organizationId, listing);
      const data = rows.slice(0, limit).flatMap((bulk) => showBatch(bulk) ?? []);
      return toOpenaiList(data, rows.length > limit);
    },
  }),

  getBatch: defineEndpoint({
    route: `GET ${path}/:bulkId`,
    scope: 'studio:read',
    bucket: 'polls',
    errorFormat: 'openai',
    summary: 'Get a batch (OpenAI-compatible)',
    request: batchRequest,
    response: batchSchema,
    errors: ['BULK_NOT_FOUND', 'JOB_ARCHIVED'],
    handle: async (call, services) => (await findBatch(call, services)).batch,
  }),

  cancelBatch: defineEndpoint({
    route: `POST ${path}/:bulkId/cancel`,
    scope: 'studio:read',
    viewerError: 'A viewer may not change bulk jobs.',
    errorFormat: 'openai',
    summary: 'Cancel a batch (OpenAI-compatible)',
    description: 'Requests that were sent are awaited and charged. A batch that has ended is 409.',
    request: batchRequest,
    response: batchSchema,
    errors: ['BULK_NOT_FOUND', 'JOB_ARCHIVED', 'BULK_ALREADY_DONE'],
    async handle(call, services) {
      const { bulk } = await findBatch(call, services);
      await commandBulk({ bulk, caller: call.caller }, { command: 'cancel', all: false }, services);
      return (await findBatch(call, services)).batch;
    },
  }),
};
