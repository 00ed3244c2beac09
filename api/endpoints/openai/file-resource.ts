/**
 * /api/v1/files: the files of OpenAI's API. An input file of a batch is an upload like others; the outputs of batches
 * are made when they are read (bulk/batch-files.ts).
 */
import { Readable } from 'node:stream';
import { z } from 'zod';
import { fileIdPattern, type BatchFile } from '../../../bulk/batch-files.ts';
import { fieldError, GatewayError } from '../../../domain/errors.ts';
import {
  claimCondition,
  claimKey,
  findEarlier,
  type KeyedRequest,
} from '../../../ledger/claims.ts';
import { command, type DatabasePool } from '../../../platform/database.ts';
import type { ReceivedFile } from '../../../storage/inputs/recordings.ts';
import type { Composition } from '../../composition.ts';
import type { Context } from '../../context.ts';
import { parseBody } from '../../http/ignored-fields.ts';
import { bodyBytesMax } from '../../http/json-lines.ts';
import { idempotencyHeader, parseIdempotencyKey } from '../../http/request-headers.ts';
import { fileAnswers, sendStoredFile } from '../../http/stored-file.ts';
import { defineEndpoint, rawResponse, type EndpointCall } from '../endpoint.ts';
import { openaiListOf, toOpenaiList } from '../fields.ts';
import { createFileList, receiveFiles } from '../studio-body.ts';

const path = '/api/v1/files';
const fileId = z.string().regex(fileIdPattern, 'No such file.');
const fileRequest = { params: z.object({ fileId }) };
const purposes = ['batch', 'batch_output'] as const;
/** Maximum number of files of a page; a request may ask for more. */
const pageMax = 100;

const file = z
  .object({
    id: z.string(),
    object: z.literal('file'),
    bytes: z.int(),
    created_at: z.int(),
    filename: z.string(),
    purpose: z.enum(purposes).meta({ id: 'OpenAIFilePurpose' }),
    status: z.literal('processed'),
  })
  .meta({ id: 'OpenAIFile' });

const formFields = {
  purpose: z.literal('batch', 'must be batch: files of other purposes are not stored'),
};
const form = z.object({
  ...formFields,
  'expires_after[anchor]': z
    .never('must be absent: files expire when they are not used')
    .optional(),
  'expires_after[seconds]': z
    .never('must be absent: files expire when they are not used')
    .optional(),
});

const missing = (): GatewayError => new GatewayError('NOT_FOUND', 'No such file.');

/** Finds the file with the id in the path. @throws GatewayError NOT_FOUND */
async function findFile(
  { caller, params }: Pick<EndpointCall<typeof fileRequest>, 'caller' | 'params'>,
  { batchFiles }: Pick<Composition, 'batchFiles'>,
): Promise<BatchFile> {
  const found = await batchFiles.find(caller.organizationId, params.fileId);
  if (!found) throw missing();
  return found;
}

async function showFile(
  ctx: Context,
  found: BatchFile,
  { batchFiles, shares }: Pick<Composition, 'batchFiles' | 'shares'>,
): Promise<z.infer<typeof file>> {
  const takeTurn = () => shares.takeTurn(ctx);
  return {
    id: found.id,
    object: 'file',
    bytes: await batchFiles.measure(ctx.state.caller.organizationId, found, takeTurn),
    created_at: Math.floor(found.created_at / 1000),
    filename: found.filename ?? `${found.id}.jsonl`,
    purpose: found.kind === 'input' ? 'batch' : 'batch_output',
    status: 'processed',
  };
}

/**
 * Claims the Idempotency-Key of a request whose file was stored. Returns the id of the file, or of that of an earlier
 * request with the same key, which makes this one unused.
 * @throws GatewayError IDEMPOTENCY_KEY_REUSED
 */
async function claimUpload(pool: DatabasePool, keyed: KeyedRequest): Promise<string> {
  return pool.transaction(async (connection) => {
    const claimed = await claimKey(connection, keyed);
    if (claimed.state === 'done') return claimed.subjectId;
    await connection.query(command`UPDATE idempotency_claim SET state = 'done', subject_id = ${keyed.subjectId}
      WHERE ${claimCondition(claimed.claim)}`);
    return keyed.subjectId;
  });
}

/**
 * Stores a received file and returns its id, or that of the file of an earlier request with the same Idempotency-Key.
 * @throws GatewayError IDEMPOTENCY_KEY_REUSED, STORAGE_QUOTA_EXCEEDED
 */
async function storeOnce(
  ctx: Context,
  { stored, name, purpose }: { stored: ReceivedFile; name: string; purpose: string },
  { pool }: Pick<Composition, 'pool'>,
): Promise<{ id: string; isRepeated: boolean }> {
  const idempotencyKey = parseIdempotencyKey(ctx);
  const { organizationId } = ctx.state.caller;
  const body = JSON.stringify({ contentId: stored.contentId, name });
  const keyed = idempotencyKey !== null && { organizationId, idempotencyKey, path: '/files', body };
  // A repeated request stores nothing, because the quota may have no more room.
  const earlierId = keyed && (await findEarlier(pool, { ...keyed, subjectId: '' }));
  if (earlierId) return { id: earlierId, isRepeated: true };
  const { fileId: newId } = await stored.store({ filename: name, purpose });
  const id = keyed ? await claimUpload(pool, { ...keyed, subjectId: newId }) : newId;
  return { id, isRepeated: id !== newId };
}

/** Receives and stores the file of a form, and returns its id. */
async function storeFile(ctx: Context, services: Composition): Promise<string> {
  const received = createFileList();
  let isUsed = false;
  try {
    const { texts, files } = await receiveFiles(
      ctx,
      { requestFiles: services.requestFiles, onReceiving: (sent) => received.onReceiving(sent) },
      { receive: 'receiveLines', files: { file: 1 }, bytesMax: bodyBytesMax },
    );
    const { purpose } = parseBody(ctx, { schema: form, value: texts, part: 'form' });
    const [sent] = files;
    if (!sent) throw fieldError('INVALID_REQUEST', 'file', 'is required');
    const { stored, name }: { stored: ReceivedFile; name: string } = sent;
    const { id, isRepeated } = await storeOnce(ctx, { stored, name, purpose }, services);
    isUsed = !isRepeated;
    if (isRepeated) ctx.set('Idempotent-Replayed', 'true');
    return id;
  } finally {
    received.discard({ isUsed });
  }
}

/** Endpoints of files. */
export const files = {
  createFile: defineEndpoint({
    route: `POST ${path}`,
    scope: 'storage:write',
    viewerError: 'A viewer may not upload files.',
    errorFormat: 'openai',
    summary: 'Upload the input file of a batch (OpenAI-compatible)',
    description:
      'A request in each line (JSONL), at most 64 MB. The file counts toward the storage quota, is listed with other uploads, and is deleted if no request uses it for 30 days (configurable).',
    request: {
      headers: idempotencyHeader,
      content: {
        'multipart/form-data': {
          schema: z.object({ file: z.string().meta({ format: 'binary' }), ...formFields }),
        },
      },
    },
    response: file,
    responses: {
      200: {
        description: 'The file.',
        headers: z.object({ 'Idempotent-Replayed': z.literal('true').optional() }),
      },
    },
    errors: ['FILE_TOO_LARGE', 'STORAGE_QUOTA_EXCEEDED', 'NOT_FOUND'],
    async handle({ ctx, caller }, services) {
      const id = await storeFile(ctx, services);
      return showFile(ctx, await findFile({ caller, params: { fileId: id } }, services), services);
    },
  }),

  listOpenAIFiles: defineEndpoint({
    route: `GET ${path}`,
    scope: 'studio:read',
    bucket: 'polls',
    errorFormat: 'openai',
    summary: 'List the files of batches (OpenAI-compatible)',
    description:
      'Input files, and the output and error files of batches that have ended. A page has at most 100.',
    request: {
      query: z.object({
        after: fileId.optional(),
        limit: z.coerce.number().int().min(1).max(10_000).default(pageMax),
        order: z.enum(['asc', 'desc']).default('desc'),
        purpose: z.enum(purposes).optional(),
      }),
    },
    response: openaiListOf(file),
    async handle({ ctx, caller, query: { after, limit, order, purpose } }, services) {
      ctx.state.endTurn?.();
      const size = Math.min(limit, pageMax);
      const isInput = purpose && purpose === 'batch';
      const listing = { isInput, after, order, limit: size + 1 };
      const rows = await services.batchFiles.list(caller.organizationId, listing);
      const data = [];
      for (const row of rows.slice(0, size)) data.push(await showFile(ctx, row, services));
      return toOpenaiList(data, rows.length > size);
    },
  }),

  getFile: defineEndpoint({
    route: `GET ${path}/:fileId`,
    scope: 'studio:read',
    bucket: 'polls',
    errorFormat: 'openai',
    summary: 'Get a file of a batch (OpenAI-compatible)',
    request: fileRequest,
    response: file,
    errors: ['NOT_FOUND'],
    async handle({ ctx, ...call }, services) {
      const found = await findFile(call, services);
      ctx.state.endTurn?.();
      return showFile(ctx, found, services);
    },
  }),

  getFileContent: defineEndpoint({
    route: `GET ${path}/:fileId/content`,
    scope: 'studio:read',
    bucket: 'polls',
    errorFormat: 'openai',
    summary: 'Download a file of a batch (OpenAI-compatible)',
    request: fileRequest,
    response: rawResponse,
    responses: {
      200: {
        description: 'The lines of the file.',
        type: 'application/octet-stream',
        schema: z.string().meta({ format: 'binary' }),
      },
      ...fileAnswers,
    },
    errors: ['NOT_FOUND', 'RANGE_NOT_SATISFIABLE'],
    async handle({ ctx, ...call }, services) {
      const { storage, batchFiles, shares } = services;
      const found = await findFile(call, services);
      ctx.set('Content-Disposition', `attachment; filename="${found.id}.jsonl"`);
      if (found.storageKey !== null) {
        const missingMessage = missing().message;
        await sendStoredFile(ctx, storage, { key: found.storageKey, missingMessage });
      } else {
        const lines = batchFiles.read(call.caller.organizationId, found, () =>
          shares.takeTurn(ctx),
        );
        ctx.status = 200;
        ctx.body = Readable.from(lines, { objectMode: false });
      }
      ctx.type = 'application/octet-stream';
    },
  }),

  deleteOpenAIFile: defineEndpoint({
    route: `DELETE ${path}/:fileId`,
    scope: 'files:delete',
    viewerError: 'A viewer may not delete files.',
    errorFormat: 'openai',
    summary: 'Delete a file of a batch (OpenAI-compatible)',
    description:
      'A batch goes on without its input file. With an output file, the answers of the batch are deleted.',
    request: fileRequest,
    response: z.object({ id: z.string(), object: z.literal('file'), deleted: z.literal(true) }),
    errors: ['NOT_FOUND'],
    async handle(call, services) {
      const found = await findFile(call, services);
      if (found.kind === 'input')
        await services.uploads.delete(found.id, call.caller.organizationId);
      else await services.batchFiles.delete(found);
      return { id: found.id, object: 'file' as const, deleted: true as const };
    },
  }),
};
