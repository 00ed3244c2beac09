/**
 * Claims of Idempotency-Keys. A key identifies one request and what the request creates: one job,
 * chat or row (docs/guarantees.md). A request claims its key with a random token, and renews the
 * claim while it runs. A claim that is not renewed expires. Another request may then take it over
 * with a new token, and the first request stops.
 */
import { createHash, randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { sql, type CommonQueryMethods, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { GatewayError, assert } from '../domain/errors.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import type { Logger } from '../platform/logger.ts';
import { createShares } from '../platform/shares.ts';

/** Request that may have an Idempotency-Key. */
export interface KeyableRequest {
  /** Organization, or `operator:<id>` for a request of an operator. */
  organizationId: string;
  /** Null if the request has no key. */
  idempotencyKey: string | null;
  path: string;
  /** Parsed body, so that the JSON formatting makes no difference. */
  body: unknown;
  /** Id of the job, chat or row that the request creates. */
  subjectId: string;
}

/** Request with an Idempotency-Key. */
export type KeyedRequest = KeyableRequest & { idempotencyKey: string };

/** Response that was stored for later requests with the same key. */
export interface StoredResponse {
  /** Reads the body piece by piece, as fast as the client takes it. */
  stream: Readable;
  bytes: number;
  headers: Record<string, string>;
}

/** Primary key and token of a claim in the database. */
export interface ClaimId {
  organizationId: string;
  key: string;
  /** Token of the request that has the claim. */
  holder: string;
}

/** Result of claiming a key: `UsedKey` if an earlier request used it, otherwise `ClaimedKey`. */
export type ClaimResult = UsedKey | ClaimedKey;
/** Key that an earlier request used, with the id of the job, chat or row that it created. */
export interface UsedKey {
  state: 'done';
  subjectId: string;
  /** Stored response to the earlier request. Null if it was not stored. */
  response: StoredResponse | null;
}
/** Key that this request has claimed. */
export interface ClaimedKey {
  state: 'claimed';
  /** Id of what is to be created, or of the job that an earlier request may have started. */
  subjectId: string;
  claim: ClaimId;
}

/**
 * Lifetime of a claim without renewal. If a chat was charged longer ago than this and its response
 * was not stored, a request with the same key is rejected with ANSWER_NOT_KEPT.
 */
const claimDuration = '10 seconds';
const claimRow = z.object({
  verdict: z.enum(['claimed', 'done', 'other', 'in_progress', 'not_kept']),
  subject: z.string().nullable(),
  answer_bytes: z.number().nullable(),
  answer_headers: z.record(z.string(), z.string()).nullable(),
});
const pieceRow = z.object({ piece: z.instanceof(Buffer).nullable() });
/** Number of bytes of a stored response that one query reads. */
const pieceBytes = 64 * 1024;

/**
 * Claims a key. If another request claims it in an open transaction, waits until that ends.
 * @throws GatewayError IDEMPOTENCY_KEY_REUSED, REQUEST_IN_PROGRESS, ANSWER_NOT_KEPT
 */
export async function claimKey(
  connection: CommonQueryMethods,
  request: KeyedRequest,
): Promise<ClaimResult> {
  const { organizationId, idempotencyKey: key, path, body, subjectId } = request;
  const holder = randomUUID();
  const fingerprint = createHash('sha256')
    .update(`${path}\n${JSON.stringify(body)}`)
    .digest('hex');
  const result = await connection.one(sql.type(claimRow)`
    SELECT verdict, subject, answer_bytes, answer_headers FROM claim_key(${organizationId}, ${key},
      ${fingerprint}, ${subjectId}, ${holder}, ${claimDuration}::interval)`);
  if (result.verdict === 'other') throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
  if (result.verdict === 'not_kept') throw new GatewayError('ANSWER_NOT_KEPT');
  if (result.verdict === 'in_progress') throw requestInProgressError();
  const { answer_bytes: bytes, answer_headers: headers, subject } = result;
  assert(subject !== null, 'claim_key returned no id');
  if (result.verdict === 'claimed') {
    return { state: 'claimed', subjectId: subject, claim: { organizationId, key, holder } };
  }
  const hasResponse = bytes !== null && headers !== null;
  const response = hasResponse && {
    bytes,
    headers,
    stream: Readable.from(readPieces(connection, request, bytes)),
  };
  return { state: 'done', subjectId: subject, response: response || null };
}

/** Returns whether an earlier request has used a key. */
export async function isKeyUsed(
  pool: DatabasePool,
  organizationId: string,
  key: string | null,
): Promise<boolean> {
  if (key === null) return false;
  return pool.exists(command`SELECT FROM idempotency_claim
    WHERE organization_id = ${organizationId} AND idempotency_key = ${key} AND state = 'done'`);
}

/**
 * Returns the id of what an earlier request with the same key created; null if no earlier request has used the key.
 * @throws GatewayError IDEMPOTENCY_KEY_REUSED
 */
export async function findEarlier(
  pool: DatabasePool,
  request: KeyedRequest,
): Promise<string | null> {
  if (!(await isKeyUsed(pool, request.organizationId, request.idempotencyKey))) return null;
  return pool.transaction(async (connection) => {
    const claimed = await claimKey(connection, request);
    // The claim has just been deleted because of its age.
    if (claimed.state !== 'done') throw new GatewayError('SERVICE_UNAVAILABLE');
    return claimed.subjectId;
  });
}

/** Maximum time in milliseconds for which the next piece of a stored response waits for its turn. */
const pieceWaitMs = 60_000;
/** Limit of two reads of pieces at the same time. Organizations take turns, so that one that repeats large responses does not delay others. */
const pieceTurns = createShares(2);

/** Reads a stored response in pieces, so that no process holds it as a whole. */
async function* readPieces(
  connection: CommonQueryMethods,
  { organizationId, idempotencyKey }: KeyedRequest,
  bytes: number,
): AsyncGenerator<Buffer> {
  for (let offset = 0; offset < bytes; offset += pieceBytes) {
    const release = await pieceTurns.enter(organizationId, pieceWaitMs);
    if (!release) throw new GatewayError('SERVICE_UNAVAILABLE');
    const piece = await connection
      .oneFirst(
        sql.type(pieceRow)`
          SELECT substring(answer FROM ${offset + 1} FOR ${pieceBytes}) AS piece FROM idempotency_claim
          WHERE organization_id = ${organizationId} AND idempotency_key = ${idempotencyKey}`,
      )
      .finally(release);
    assert(piece, 'the stored response was deleted while it was read');
    yield piece;
  }
}

/** Returns the error for a request whose key another request has claimed. */
function requestInProgressError(): GatewayError {
  return new GatewayError('REQUEST_IN_PROGRESS', undefined, { retryAfterSeconds: 1 });
}

/** Returns the SQL condition that selects a claim by its primary key and token. */
export function claimCondition({ organizationId, key, holder }: ClaimId): FragmentSqlToken {
  return sql.fragment`organization_id = ${organizationId} AND idempotency_key = ${key}
    AND holder = ${holder}`;
}

/** Interval between renewals of a claim, in milliseconds. */
const renewalMs = 3000;

/**
 * Claim of the current request. It is renewed until `release`, `storeResponse` or `stopRenewal` is
 * called.
 */
export interface HeldClaim {
  state: 'held';
  /** Primary key and token of the claim's row. Null for a request without an Idempotency-Key. */
  id: ClaimId | null;
  /** Id for the new job or chat, or of the job that an earlier request may have started. */
  subjectId: string;
  /**
   * Records that the job is about to be started. The start cannot be undone, so a later request
   * with this key uses the same id.
   * @throws GatewayError REQUEST_IN_PROGRESS if another request has taken over the claim
   */
  recordStart: () => Promise<void>;
  /** Notes that the ledger rejected the job, so that `release` deletes the claim. */
  noteRejection: () => void;
  /** Deletes the claim if nothing was or will be created. Returns whether it was deleted. */
  release: () => Promise<boolean>;
  /** Stores the response for later requests with the key. An error is only logged. */
  storeResponse: (response: { text: string; headers: Record<string, string> }) => Promise<void>;
  /** Stops renewing the claim: from now on, the reservation keeps the key in use. */
  stopRenewal: () => void;
}

export type Claims = ReturnType<typeof createClaims>;

/** Creates the function that claims Idempotency-Keys for jobs and chats. */
export function createClaims(pool: DatabasePool, logger: Logger) {
  return {
    /**
     * Claims the Idempotency-Key of a request. If it has none, returns a claim that exists only in
     * this process.
     * @throws GatewayError the errors of `claimKey`
     */
    async claim(request: KeyableRequest): Promise<HeldClaim | UsedKey> {
      const { idempotencyKey, subjectId } = request;
      if (idempotencyKey === null) return createUnkeyedClaim(subjectId);
      const result = await claimKey(pool, { ...request, idempotencyKey });
      return result.state === 'done' ? result : createHeldClaim(pool, logger, result);
    },
  };
}

/**
 * Creates the claim of a request without an Idempotency-Key. Such a claim has no row in the
 * database.
 */
function createUnkeyedClaim(subjectId: string): HeldClaim {
  let isStarted = false;
  return {
    state: 'held',
    id: null,
    subjectId,
    recordStart() {
      isStarted = true;
      return Promise.resolve();
    },
    noteRejection() {
      isStarted = false;
    },
    release: () => Promise.resolve(!isStarted),
    storeResponse: () => Promise.resolve(),
    stopRenewal: () => {},
  };
}

function createHeldClaim(
  pool: DatabasePool,
  logger: Logger,
  { claim, subjectId }: ClaimedKey,
): HeldClaim {
  let isRejected = false;
  let isStored = false;
  /** Runs a statement on the claim, and returns whether it changed a row. */
  async function update(query: FragmentSqlToken): Promise<boolean> {
    return (await pool.query(command`${query}`)).rowCount > 0;
  }
  /** Runs a statement on the claim. An error is only logged, because the claim expires anyway. */
  const tryUpdate = (query: FragmentSqlToken): Promise<boolean> =>
    update(query).catch((error: unknown) => {
      logger.warn({ error }, 'idempotency.claim_not_recorded');
      return false;
    });
  const renewalTimer = setInterval(() => {
    void tryUpdate(sql.fragment`UPDATE idempotency_claim
      SET held_until = clock_timestamp() + ${claimDuration}::interval WHERE ${claimCondition(claim)}`);
  }, renewalMs);
  return {
    state: 'held',
    id: claim,
    subjectId,
    async recordStart() {
      const isHeld = await update(sql.fragment`UPDATE idempotency_claim
        SET state = 'started', held_until = clock_timestamp() + ${claimDuration}::interval
        WHERE ${claimCondition(claim)}`);
      if (!isHeld) throw requestInProgressError();
    },
    noteRejection() {
      isRejected = true;
    },
    async release() {
      clearInterval(renewalTimer);
      if (isStored) return false;
      const isDeleted = await tryUpdate(sql.fragment`DELETE FROM idempotency_claim
        WHERE ${claimCondition(claim)} AND (state = 'held' OR state = 'started' AND ${isRejected})`);
      // Lets the claim expire now, so that a retried request immediately continues with the job
      // that was started.
      if (!isDeleted) {
        await tryUpdate(sql.fragment`UPDATE idempotency_claim SET held_until = clock_timestamp()
          WHERE ${claimCondition(claim)}`);
      }
      return isDeleted;
    },
    async storeResponse({ text, headers }) {
      clearInterval(renewalTimer);
      isStored = true;
      const body = Buffer.from(text);
      await tryUpdate(sql.fragment`UPDATE idempotency_claim
        SET state = 'done', answer = ${sql.binary(body)}, answer_headers = ${sql.jsonb(headers)}
        WHERE ${claimCondition(claim)}`);
    },
    stopRenewal: () => clearInterval(renewalTimer),
  };
}
