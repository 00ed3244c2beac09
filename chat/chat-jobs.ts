/**
 * Rows of chat jobs: the request of each, and its answer in pieces, as they arrived from the provider.
 * The job itself is a row of `job`, its credits are a reservation of a chat, and the end of its
 * answer is in the record of its call.
 */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { errorTable, GatewayError } from '../domain/errors.ts';
import { parseExact } from '../domain/exact-numbers.ts';
import { isRecord, keysOf } from '../domain/json.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import type { ChatBody } from './chat-body.ts';
import type { ChatSettle } from './chat-ledger.ts';
import { exactFields, type ChatRequest } from './formats/chat-fields.ts';
import type { ChatOrder } from './orders.ts';
import type { StreamStep } from './protocols/protocol.ts';

/** Format of the request and of the answer of a chat job. */
const format = z.enum(['chat', 'completions', 'responses']);
export type ChatFormat = z.infer<typeof format>;

const servedBy = z.object({ model: z.string(), provider: z.string() });

/** Schema of the end of an answer, which the record of its call contains. */
export const answerEnd = z.object({
  settlement: z.custom<ChatSettle>(isRecord),
  tried: z.array(z.object({ model: z.string(), error: z.enum(keysOf(errorTable)) })),
  head: z.object({ id: z.string(), created: z.number(), model: z.string() }),
  finishReason: z.string().nullable(),
  stopSequence: z.string().nullable(),
  /** Error with which the answer ended; null if it is complete. */
  error: z.object({ code: z.enum(keysOf(errorTable)), message: z.string() }).nullable(),
  endedAtMs: z.number(),
});
export type AnswerEnd = z.infer<typeof answerEnd>;

/** Part of an answer: its model, and the steps that arrived in about a second. */
const answerPiece = z.object({
  number: z.number(),
  servedBy,
  steps: z.custom<StreamStep[]>(Array.isArray),
});
export type AnswerPiece = z.infer<typeof answerPiece>;

const storedRow = z.object({
  organizationId: z.string(),
  format,
  request: z.string(),
  /** Model and provider that were called most recently. */
  servedBy,
  requestId: z.string(),
  usage: z.object({
    inputTokens: z.number(),
    outputTokens: z.number(),
    cachedInputTokens: z.number().exactOptional(),
    cacheWriteTokens: z.number().exactOptional(),
    reasoningTokens: z.number().exactOptional(),
  }),
});
/** Chat job as its readers need it; the request has no messages. */
export type StoredChat = Omit<z.infer<typeof storedRow>, 'request'> & { request: ChatRequest };

const orderRow = z.object({
  organizationId: z.string(),
  request: z.string(),
  /** Models of a job of an older version have no `book`. */
  models: z
    .custom<ChatOrder['models']>(Array.isArray)
    .transform(([first, ...others]): ChatOrder['models'] => [
      { ...first, book: first.book ?? null },
      ...others.map((model) => ({ ...model, book: model.book ?? null })),
    ]),
  messages: z.string(),
});
/** Request of a chat job, and its models as they were when the job was accepted. */
export type ChatJobOrder = Pick<ChatOrder, 'organizationId' | 'models'> & { request: ChatRequest };

/** New chat job. */
interface NewChatJob extends ChatJobOrder {
  id: string;
  format: ChatFormat;
}

/** Maximum size of the requests of an organization's open chat jobs, in bytes. */
const openBytesMax = 256 * 1024 * 1024;
const pieceRow = z.object({ number: z.number(), content: answerPiece.omit({ number: true }) });
const idRow = z.object({ id: z.string() });

function parseRequest(text: string): ChatRequest {
  // oxlint-disable-next-line no-unsafe-type-assertion -- the text was written by `create`
  return parseExact(text, exactFields) as ChatRequest;
}

/** Deletes the texts that the rows of jobs contain. */
const deleteTexts = (ids: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  UPDATE job SET request = request - 'prompt',
    outputs = CASE WHEN outputs IS NOT NULL THEN jsonb_set(outputs, '{0,data}', 'null') END
  WHERE id IN (${ids})`;

function createReads(pool: DatabasePool) {
  return {
    /** Reads the request of an open chat job; null if there is none. */
    async readOrder(id: string): Promise<ChatJobOrder | null> {
      const row = await pool.maybeOne(sql.type(orderRow)`
        SELECT organization_id AS "organizationId", request, models, messages
        FROM chat_job WHERE id = ${id} AND messages IS NOT NULL`);
      if (!row) return null;
      const request = parseRequest(row.request);
      // oxlint-disable-next-line no-unsafe-type-assertion -- the text was written by `create`
      const messages = parseExact(row.messages, exactFields) as ChatBody['messages'];
      return { ...row, request: { ...request, body: { ...request.body, messages } } };
    },
    /** Reads a reserved chat job; null if it does not exist, or its answer was deleted. */
    async read(organizationId: string, id: string): Promise<StoredChat | null> {
      const row = await pool.maybeOne(sql.type(storedRow)`
        SELECT c.organization_id AS "organizationId", c.format, c.request, r.request_id AS "requestId",
          jsonb_build_object('model', r.model, 'provider', r.provider) AS "servedBy",
          jsonb_strip_nulls(jsonb_build_object('inputTokens', r.input_tokens, 'outputTokens', r.output_tokens,
            'cachedInputTokens', r.cached_input_tokens, 'cacheWriteTokens', r.cache_write_tokens,
            'reasoningTokens', r.reasoning_tokens)) AS usage
        FROM chat_job c JOIN reservation r ON r.id = c.id
        WHERE c.id = ${id} AND c.organization_id = ${organizationId} AND c.deleted_at IS NULL`);
      return row && { ...row, request: parseRequest(row.request) };
    },
    /** Reads the pieces of an answer behind the one with the number `after`. */
    async readPieces(id: string, after = 0): Promise<AnswerPiece[]> {
      const rows = await pool.any(sql.type(pieceRow)`SELECT number, content FROM chat_piece
        WHERE job_id = ${id} AND number > ${after} ORDER BY number`);
      return rows.map(({ number, content }) => ({ number, ...content }));
    },
  };
}

/** Creates the functions that read and write chat jobs. */
export function createChatJobs(pool: DatabasePool) {
  return {
    ...createReads(pool),
    /**
     * Stores a chat job before its workflow starts.
     * @throws GatewayError STORAGE_QUOTA_EXCEEDED if too many long requests of the organization are open
     */
    async create({ id, organizationId, format: name, request, models }: NewChatJob): Promise<void> {
      const { messages, ...body } = request.body;
      const stored = { ...request, body: { ...body, messages: [] } };
      const text = JSON.stringify(messages);
      const rest = JSON.stringify(stored);
      const bytes = Buffer.byteLength(text) + Buffer.byteLength(rest);
      const { rowCount } = await pool.query(command`
        INSERT INTO chat_job (id, organization_id, format, request, models, messages)
        SELECT ${id}, ${organizationId}, ${name}, ${rest}, ${sql.jsonb(models.map((model) => ({ ...model })))}, ${text}
        WHERE ${bytes} + (SELECT coalesce(sum(octet_length(messages) + octet_length(request)), 0) FROM chat_job
          WHERE organization_id = ${organizationId} AND messages IS NOT NULL) <= ${openBytesMax}
        ON CONFLICT (id) DO NOTHING`);
      if (rowCount > 0 || (await pool.exists(command`SELECT FROM chat_job WHERE id = ${id}`)))
        return;
      const message = `The requests of open chat jobs may have ${openBytesMax} bytes in all. Wait until some have ended.`;
      throw new GatewayError('STORAGE_QUOTA_EXCEEDED', message);
    },
    /** Deletes a chat job that was certainly not started. */
    discard: async (id: string): Promise<void> =>
      void (await pool.query(command`DELETE FROM chat_job WHERE id = ${id}`)),
    /** Stores a piece of the answer. A repeat changes nothing. */
    append: async (id: string, { number, ...content }: AnswerPiece): Promise<void> =>
      void (await pool.query(command`INSERT INTO chat_piece (job_id, number, content)
        VALUES (${id}, ${number}, ${JSON.stringify(content)}::json) ON CONFLICT DO NOTHING`)),
    /** Removes what only an open chat job needs, and the texts if the caller deleted them meanwhile. */
    end: async (id: string): Promise<void> =>
      void (await pool.query(command`
        WITH ended AS (UPDATE chat_job SET messages = NULL WHERE id = ${id} RETURNING id, deleted_at)
        ${deleteTexts(sql.fragment`SELECT id FROM ended WHERE deleted_at IS NOT NULL`)}`)),
    /** Deletes the texts of a chat job. Its other rows are deleted once it has ended (`sweep`). */
    hide: async (id: string): Promise<void> =>
      void (await pool.query(command`
        WITH hidden AS (UPDATE chat_job SET deleted_at = clock_timestamp() WHERE id = ${id} RETURNING id)
        ${deleteTexts(sql.fragment`SELECT id FROM hidden`)}`)),
    /**
     * Deletes answers that their callers deleted, that ended more than `keptMs` ago, and requests
     * that never became a job. The jobs keep no text.
     */
    async sweep(keptMs: number): Promise<number> {
      const kept = sql.fragment`${keptMs} * interval '1 millisecond'`;
      return pool.transaction(async (connection) => {
        const ids = await connection.anyFirst(sql.type(idRow)`
          DELETE FROM chat_job WHERE id IN (
            (SELECT c.id FROM chat_job c LEFT JOIN job j ON j.id = c.id WHERE c.created_at < now() - ${kept}
              AND (j.completed_at < now() - ${kept} OR j.id IS NULL AND c.created_at < now() - interval '48 hours')
              ORDER BY c.created_at LIMIT 1000)
            UNION (SELECT c.id FROM chat_job c JOIN job j ON j.id = c.id
              WHERE c.deleted_at IS NOT NULL AND j.status <> 'open' LIMIT 1000)) RETURNING id`);
        const idList = sql.fragment`SELECT unnest(${sql.array([...ids], 'text')})`;
        await connection.query(command`${deleteTexts(idList)}`);
        return ids.length;
      });
    },
  };
}
export type ChatJobs = ReturnType<typeof createChatJobs>;

/** Maximum length of the text with which lists of jobs describe a chat job. */
const promptLengthMax = 200;

/** Returns the start of the last text of the user, which is deleted with the answer; null if there is none. */
export function findPrompt({ body: { messages } }: ChatRequest): string | null {
  const last = messages.findLast(({ role }) => role === 'user');
  if (!last || !('content' in last)) return null;
  const { content } = last;
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  const text = parts.find((part) => part.type === 'text' && 'text' in part);
  return text && 'text' in text ? text.text.slice(0, promptLengthMax).toWellFormed() : null;
}
