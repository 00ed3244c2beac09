/** GET /api/v1/requests: lists chats, embeddings and rejected requests (docs/usage.md). */
import { z } from 'zod';
import { endUserShown, splitEndUser } from '../../domain/end-users.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import { errorTable, GatewayError, type ErrorCode } from '../../domain/errors.ts';
import { idPattern, isId } from '../../domain/ids.ts';
import { isoTime } from '../../domain/json.ts';
import { plainTextSchema } from '../../identity/keys.ts';
import { isArchived } from '../../ledger/ledger-reads.ts';
import { requestStatuses, type RequestRecord } from '../../request-log/request-records.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';
import { dataSchema, pageSchema, recordFilter, time, toData, toRecordFilter } from './fields.ts';

const kind = z.enum(['chat', 'embedding', 'studio']);
const status = z.enum(requestStatuses);

const requestSchema = z
  .object({
    id: z.string(),
    kind: kind.meta({
      description: '`studio` is a rejected request for Studio work. An accepted one is a job.',
    }),
    status: status.meta({
      description:
        '`failed`: the provider failed, perhaps within a stream. `canceled`: the caller disconnected. `rejected`: nothing was reserved.',
    }),
    path: z
      .string()
      .nullable()
      .meta({ description: 'Path of the endpoint of a rejected request, otherwise null.' }),
    model: z.string().nullable(),
    provider: z.string().nullable(),
    streamed: z.boolean().nullable(),
    inputTokens: z.int().nullable(),
    outputTokens: z.int().nullable(),
    firstTokenMs: z
      .int()
      .nullable()
      .meta({ description: 'Time until the first output of a stream, in milliseconds.' }),
    durationMs: z.int().nullable().meta({ description: 'Null while the chat runs.' }),
    credits: z.number().meta({ description: 'Credits charged, less refunds.' }),
    error: z
      .object({
        code: z.string(),
        message: z.string().meta({ description: 'General description of the code.' }),
        status: z
          .int()
          .nullable()
          .meta({ description: 'HTTP status of a rejected request, otherwise null.' }),
        field: z.string().nullable().meta({ description: 'First invalid field of the request.' }),
      })
      .nullable(),
    keyId: z.string(),
    requestId: z.string().nullable(),
    metadata: z.record(z.string(), z.string()).meta({ description: '`metadata` of the request.' }),
    endUser: endUserShown,
    createdAt: time,
  })
  .meta({ id: 'RequestRecord' });

const idPatterns = (['chat', 'job', 'rejectedRequest', 'request'] as const).map((name) =>
  idPattern(name),
);
const requestId = z
  .string()
  .regex(new RegExp(idPatterns.map(({ source }) => source).join('|')), 'No such request.');

/** Endpoints that list requests and get one. */
export const requests = defineSection('Usage', {
  listRequests: defineEndpoint({
    route: 'GET /api/v1/requests',
    scope: 'usage:read',
    summary: 'List chats, embeddings and rejected requests, newest first',
    description:
      'Rejected requests are listed for 24 hours, and at most the last 1,000 of an organization. They include rejected ' +
      'requests for Studio work. The list contains no texts of requests or answers.',
    request: {
      query: z.strictObject({
        ...recordFilter,
        kind: kind.optional(),
        status: status.optional(),
        provider: plainTextSchema(100)
          .optional()
          .meta({ description: 'Return only requests that this provider served.' }),
        limit: z.coerce.number().int().min(1).max(100).default(20),
        cursor: z
          .string()
          .regex(/^[\w-]{1,200}$/, 'must be the nextCursor of an earlier page')
          .optional()
          .meta({ description: '`nextCursor` of the previous page.' }),
      }),
    },
    response: pageSchema(requestSchema),
    async handle({ caller, query }, { requestReads }) {
      const { nextCursor, records } = await requestReads.page(caller.organizationId, {
        limit: query.limit,
        cursor: query.cursor,
        kind: query.kind,
        status: query.status,
        provider: query.provider,
        ...toRecordFilter(query),
      });
      return {
        ...toData(records.map(formatRequest)),
        hasMore: nextCursor !== null,
        nextCursor,
      };
    },
  }),
  getRequest: defineEndpoint({
    route: 'GET /api/v1/requests/:id',
    scope: 'usage:read',
    summary: 'Get a chat, an embedding or a rejected request',
    description:
      'The id is that of the list, or the request id of the response: `requestId` of an error, or `X-Request-Id`.',
    request: { params: z.strictObject({ id: requestId }) },
    response: dataSchema(requestSchema),
    errors: ['NOT_FOUND', 'CHAT_ARCHIVED'],
    async handle({ caller: { organizationId }, params: { id } }, { requestReads, pool }) {
      const found = await requestReads.find(organizationId, id);
      if (found) return toData(formatRequest(found));
      const archived = isId('chat', id) && (await isArchived(pool, id, organizationId));
      if (archived) throw new GatewayError('CHAT_ARCHIVED');
      throw new GatewayError('NOT_FOUND', 'No such request.');
    },
  }),
});

const isErrorCode = (code: string): code is ErrorCode => code in errorTable;

function formatRequest(record: RequestRecord): z.infer<typeof requestSchema> {
  const {
    creditsMicro,
    errorCode: code,
    errorStatus,
    errorField: field,
    createdAtMs,
    createdAtMicros: _,
    ...rest
  } = record;
  return {
    ...rest,
    credits: creditsFromMicro(creditsMicro),
    error: code === null ? null : { code, message: describe(code), status: errorStatus, field },
    ...splitEndUser(record.metadata),
    createdAt: isoTime(createdAtMs),
  };
}

const describe = (code: string): string => (isErrorCode(code) ? errorTable[code].message : code);
