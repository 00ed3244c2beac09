/**
 * Records rejected requests for the list of requests. A request only adds to a buffer, which is written
 * each second, so that a flood of rejected requests costs as little as a few of them.
 */
import { sql } from 'slonik';
import type { ErrorCode } from '../domain/errors.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import { withoutCorrelation, type Logger } from '../platform/logger.ts';

/** Kind of a request. A Studio request that is accepted is a job, and not in the list of requests. */
export type RequestKind = 'chat' | 'embedding' | 'studio';

/** Rejected request. It contains no part of the body but the names of the model, of a field and of the end user. */
export interface RejectedRequest {
  id: string;
  organizationId: string;
  keyId: string;
  endUser: string | null;
  createdAtMs: number;
  kind: RequestKind;
  /** Path of the endpoint, with the names of its parameters. */
  path: string;
  model: string | null;
  status: number;
  errorCode: ErrorCode;
  field: string | null;
  requestId: string;
  durationMs: number;
}

/** Maximum number of stored rejected requests of an organization. */
const rowsMax = 1000;
/** Maximum number of rejected requests in the buffer: of an organization, and of all. */
const bufferedMax = { organization: 100, all: 2000 };
/** Time between the first request in the buffer and its write, in milliseconds. */
const writeAfterMs = 1000;
/** Time for which rejected requests are stored and listed. */
export const rejectedKept = sql.fragment`interval '24 hours'`;

export type RejectedRequests = ReturnType<typeof createRejectedRequests>;

/** Creates the functions that record rejected requests. */
export function createRejectedRequests(
  pool: DatabasePool,
  logger: Logger,
  limits: { rowsMax: number } = { rowsMax },
) {
  let buffered: RejectedRequest[] = [];
  let countByOrganization = new Map<string, number>();
  let timer: NodeJS.Timeout | undefined;
  let writing = Promise.resolve();

  async function write(): Promise<void> {
    const rows = buffered;
    buffered = [];
    countByOrganization = new Map();
    clearTimeout(timer);
    timer = undefined;
    if (rows.length === 0) return;
    try {
      await pool.query(command`SELECT record_rejected_requests(
        ${sql.jsonb(rows.map((row) => ({ ...row })))}, ${limits.rowsMax})`);
    } catch (error) {
      // The list may miss requests that were rejected during an outage of Postgres.
      logger.warn({ error, count: rows.length }, 'rejected_requests.lost');
    }
  }
  const flush = (): Promise<void> => (writing = writing.then(write));
  return {
    /** Adds a request to the buffer. Drops it if the buffer is full. */
    add(request: RejectedRequest): void {
      const count = countByOrganization.get(request.organizationId) ?? 0;
      if (count >= bufferedMax.organization || buffered.length >= bufferedMax.all) return;
      countByOrganization.set(request.organizationId, count + 1);
      buffered.push(request);
      // The rows belong to several organizations, so the write must not wait for the share of one.
      timer ??= withoutCorrelation(() => setTimeout(() => void flush(), writeAfterMs).unref());
    },
    /** Writes the buffered requests. */
    flush,
    /** Deletes requests that are older than 24 hours. */
    async sweep(): Promise<void> {
      await pool.query(command`DELETE FROM rejected_request
        WHERE created_at < clock_timestamp() - ${rejectedKept}`);
    },
  };
}
