/**
 * Files of OpenAI's API: input files of batches, which are uploads, and output and error files of batches that have
 * ended. Those two are not stored: each read makes them from the items of the bulk job (docs/decisions/0021-batches.md).
 */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { formatOpenaiError, getStatus } from '../domain/error-bodies.ts';
import { errorTable, fieldError, GatewayError } from '../domain/errors.ts';
import { formatJsonLine } from '../domain/event-lines.ts';
import { keysOf } from '../domain/json.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import { formatInTurns } from '../platform/work-turns.ts';
import { linesContentType } from '../storage/storage.ts';
import { bulkItemRow, type BatchFields, type BulkReads, type BulkRecord } from './bulk-reads.ts';

const fileRow = z.object({
  id: z.string(),
  kind: z.enum(['input', 'output', 'errors']),
  /** Batch of an output or error file; null for an input file. */
  bulkId: z.string().nullable(),
  /** Key of the object; null for an output or error file. */
  storageKey: z.string().nullable(),
  /** Size in bytes; null for a file that was not measured yet. */
  bytes: z.number().nullable(),
  filename: z.string().nullable(),
  created_at: z.number(),
});
export type BatchFile = z.infer<typeof fileRow>;

/** Returns the id of a file of a batch. */
export const toFileId = (bulkId: string, kind: BulkRecord['files'][number]): string =>
  `file_${kind}_${bulkId.slice('bulk_'.length)}`;

/** Pattern of the ids of all files. */
export const fileIdPattern = /^file_(?:(?:output|errors)_)?[0-9a-f]{32}$/;

/** Query of all files of an organization. The id of a file of a batch is that of `toFileId`. */
const selectFiles = (organizationId: string): FragmentSqlToken => sql.fragment`
  SELECT u.id, 'input' AS kind, NULL AS "bulkId", u.storage_key AS "storageKey", u.size_bytes AS bytes, u.filename, u.created_at
  FROM upload u WHERE u.organization_id = ${organizationId} AND u.content_type = ${linesContentType}
    AND u.completed_at IS NOT NULL AND u.deleted_at IS NULL
  UNION ALL SELECT 'file_' || k.kind || '_' || substr(b.id, 6), k.kind, b.id, NULL, (b.batch->'sizes'->>k.kind)::bigint,
    b.id || '_' || k.kind || '.jsonl', b.completed_at
  FROM bulk b, unnest(bulk_files(b)) AS k(kind) WHERE b.organization_id = ${organizationId} AND b.batch IS NOT NULL`;

/** Query of the place of a file in lists. A list that goes on behind a file may have deleted it meanwhile. */
const selectPlace = (organizationId: string, id: string): FragmentSqlToken => sql.fragment`
  SELECT u.created_at, u.id FROM upload u
  WHERE u.organization_id = ${organizationId} AND u.content_type = ${linesContentType} AND u.id = ${id}
  UNION ALL SELECT b.completed_at, ${id} FROM bulk b
  WHERE b.organization_id = ${organizationId} AND b.batch IS NOT NULL AND b.completed_at IS NOT NULL
    AND ${id} ~ '^file_(output|errors)_' AND b.id = 'bulk_' || right(${id}, 32)`;

/** Page of files, and their order by time. */
interface FileListing {
  isInput: boolean | undefined;
  after: string | undefined;
  order: 'asc' | 'desc';
  limit: number;
}

const measuredRow = bulkItemRow
  .pick({ index: true, item_id: true, job_id: true, state: true, error: true, answer: true })
  .extend({ answerBytes: z.number() });
type Measured = readonly z.infer<typeof measuredRow>[];
type LineItem = Omit<Measured[number], 'answerBytes'>;

/** Maximum number of items that are measured at the same time. */
const measuredPerRead = 500;

/** Formats the line of an item that has ended. */
function formatLine(item: LineItem, bulk: BulkRecord): string {
  const requestId = item.job_id ?? bulk.requestId;
  const id = `batch_req_${bulk.id.slice('bulk_'.length)}_${item.index}`;
  const line = { id, custom_id: item.item_id };
  if (item.state === 'canceled') {
    const code = bulk.stopReason === 'EXPIRED' ? 'batch_expired' : 'batch_cancelled';
    const error = { code, message: item.error?.message ?? '' };
    return `${formatJsonLine({ ...line, response: null, error })}\n`;
  }
  const code =
    keysOf(errorTable).find((one) => one === item.error?.code) ?? 'Internal server error';
  const status = item.answer === null ? getStatus(code, 'openai') : 200;
  const body = item.answer ?? formatJsonLine(formatFailure(code, item, requestId));
  // The answer is inserted as text, because its numbers keep their digits.
  const response = `{"status_code":${status},"request_id":${JSON.stringify(requestId)},"body":${body}}`;
  return `${formatJsonLine(line).slice(0, -1)},"response":${response},"error":null}\n`;
}

/** Formats the error of an item as the body that its endpoint would send. */
function formatFailure(code: GatewayError['code'], { error }: LineItem, requestId: string): object {
  const { message = errorTable[code].message, param: path } = error ?? {};
  const details = path === undefined ? {} : { details: [{ path, message }] };
  return formatOpenaiError(new GatewayError(code, message, details), requestId);
}

/** Waits for a turn of the organization, and returns the function that ends it. */
type TakeTurn = () => Promise<() => void>;

/** Yields the lines of a file of a batch in portions, each in a turn. */
function readLines(
  bulkReads: BulkReads,
  { bulk, kind }: { bulk: BulkRecord; kind: BulkRecord['files'][number] },
  takeTurn: TakeTurn,
): AsyncGenerator<string> {
  return formatInTurns(bulkReads.endedItems(bulk, kind === 'output'), takeTurn, (portion) =>
    portion
      // The answers may be deleted during the read.
      .filter(({ item }) => kind === 'errors' || item.answer !== null)
      .map(({ item }) => formatLine(item, bulk))
      .join(''),
  );
}

/** Reads the next ended items of a batch, with the sizes of their answers in place of the answers. */
const readMeasured = (pool: DatabasePool, bulk: BulkRecord, after: number): Promise<Measured> =>
  pool.any(sql.type(measuredRow)`
    SELECT index, item_id, job_id, state, error, CASE WHEN answer IS NOT NULL THEN '' END AS answer,
      coalesce(octet_length(answer), 0) AS "answerBytes"
    FROM bulk_item WHERE bulk_id = ${bulk.id} AND index > ${after} AND end_number <= ${bulk.lastEnd}
    ORDER BY index LIMIT ${measuredPerRead}`);

/** Measures the files of a batch in portions, each in a turn. Answers are not read: files contain them unchanged. */
async function measureFiles(
  pool: DatabasePool,
  bulk: BulkRecord,
  takeTurn: TakeTurn,
): Promise<NonNullable<BatchFields['sizes']>> {
  const sizes = { output: 0, errors: 0 };
  for (let after: number | undefined = -1; after !== undefined;) {
    const endTurn = await takeTurn();
    try {
      const items: Measured = await readMeasured(pool, bulk, after);
      for (const item of items) {
        const kind = item.state === 'completed' ? 'output' : 'errors';
        if (kind === 'output' && item.answer === null) continue;
        const line = formatLine(item, bulk);
        sizes[kind] += Buffer.byteLength(line) + item.answerBytes;
      }
      after = items.at(-1)?.index;
    } finally {
      endTurn();
    }
  }
  return sizes;
}

/** Creates the functions that read and delete files. */
export function createBatchFiles(pool: DatabasePool, bulkReads: BulkReads) {
  async function findBulk(organizationId: string, { bulkId }: BatchFile): Promise<BulkRecord> {
    const bulk = await bulkReads.read(organizationId, bulkId ?? '');
    if (!bulk) throw new GatewayError('NOT_FOUND', 'No such file.');
    return bulk;
  }

  return {
    /** Finds a file; null if the organization has none with this id, or it was deleted. */
    find: (organizationId: string, id: string): Promise<BatchFile | null> =>
      pool.maybeOne(
        sql.type(fileRow)`SELECT * FROM (${selectFiles(organizationId)}) AS f WHERE f.id = ${id}`,
      ),
    /** Lists files by time, from behind the file `after`. @throws GatewayError INVALID_REQUEST if it is unknown */
    async list(
      organizationId: string,
      { isInput, after, order, limit }: FileListing,
    ): Promise<readonly BatchFile[]> {
      const files = selectFiles(organizationId);
      const [direction, behind] =
        order === 'asc'
          ? [sql.fragment`ASC`, sql.fragment`>`]
          : [sql.fragment`DESC`, sql.fragment`<`];
      const conditions = [sql.fragment`true`];
      if (isInput !== undefined) conditions.push(sql.fragment`(f.kind = 'input') = ${isInput}`);
      if (after !== undefined) {
        const place = selectPlace(organizationId, after);
        if (!(await pool.exists(command`${place}`)))
          throw fieldError('INVALID_REQUEST', 'after', 'No such file.');
        conditions.push(sql.fragment`(f.created_at, f.id) ${behind} (${place})`);
      }
      return pool.any(sql.type(fileRow)`SELECT * FROM (${files}) AS f
        WHERE ${sql.join(conditions, sql.fragment` AND `)}
        ORDER BY f.created_at ${direction}, f.id ${direction} LIMIT ${limit}`);
    },
    /** Yields the lines of an output or error file in portions. @throws GatewayError NOT_FOUND */
    async *read(
      organizationId: string,
      file: BatchFile,
      takeTurn: TakeTurn,
    ): AsyncGenerator<string> {
      const kind = file.kind === 'errors' ? 'errors' : 'output';
      const bulk = await findBulk(organizationId, file);
      yield* readLines(bulkReads, { bulk, kind }, takeTurn);
    },
    /** Returns the size of a file in bytes. The files of a batch are measured once after its end. */
    async measure(organizationId: string, file: BatchFile, takeTurn: TakeTurn): Promise<number> {
      if (file.bytes !== null) return file.bytes;
      const bulk = await findBulk(organizationId, file);
      const sizes = await measureFiles(pool, bulk, takeTurn);
      // If the batch was retried during the measurement, its files have changed.
      await pool.query(command`UPDATE bulk SET batch = batch || ${sql.jsonb({ sizes })}
        WHERE id = ${bulk.id} AND completed_at IS NOT NULL AND last_end = ${bulk.lastEnd}`);
      return file.kind === 'errors' ? sizes.errors : sizes.output;
    },
    /** Deletes an output or error file, and the answers in it. */
    async delete({ bulkId, kind }: BatchFile): Promise<void> {
      await pool.query(command`SELECT bulk_delete_file(${bulkId}, ${kind})`);
    },
  };
}
export type BatchFiles = ReturnType<typeof createBatchFiles>;
