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
  attempt: string;
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
export const claimDuration = '10 seconds';
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
  const attempt = randomUUID();
  const fingerprint = createHash('sha256')
    .update(`${path}\n${JSON.stringify(body)}`)
    .digest('hex');
  const result = await connection.one(sql.type(claimRow)`
    SELECT verdict, subject, answer_bytes, answer_headers FROM claim_key(${organizationId}, ${key},
      ${fingerprint}, ${subjectId}, ${attempt}, ${claimDuration}::interval)`);
  if (result.verdict === 'other') throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
  if (result.verdict === 'not_kept') throw new GatewayError('ANSWER_NOT_KEPT');
  if (result.verdict === 'in_progress') throw requestInProgressError();
  const { answer_bytes: bytes, answer_headers: headers, subject } = result;
  assert(subject !== null, 'claim_key returned no id');
  if (result.verdict === 'claimed') {
    return { state: 'claimed', subjectId: subject, claim: { organizationId, key, attempt } };
  }
  const hasResponse = bytes !== null && headers !== null;
  const response = hasResponse && {
    bytes,
    headers,
    stream: Readable.from(readPieces(connection, request, bytes)),
  };
  return { state: 'done', subjectId: subject, response: response || null };
}

/** Reads a stored response in pieces, so that no process holds it as a whole. */
async function* readPieces(
  connection: CommonQueryMethods,
  { organizationId, idempotencyKey }: KeyedRequest,
  bytes: number,
): AsyncGenerator<Buffer> {
  for (let offset = 0; offset < bytes; offset += pieceBytes) {
    const piece = await connection.oneFirst(sql.type(pieceRow)`
      SELECT substring(answer FROM ${offset + 1} FOR ${pieceBytes}) AS piece FROM idempotency_claim
      WHERE organization_id = ${organizationId} AND idempotency_key = ${idempotencyKey}`);
    assert(piece, 'the stored response was deleted while it was read');
    yield piece;
  }
}

/** Returns the error for a request whose key another request has claimed. */
export function requestInProgressError(): GatewayError {
  return new GatewayError('REQUEST_IN_PROGRESS', undefined, { retryAfterSeconds: 1 });
}

/** Returns the SQL condition that selects a claim by its primary key and token. */
export function claimCondition({ organizationId, key, attempt }: ClaimId): FragmentSqlToken {
  return sql.fragment`organization_id = ${organizationId} AND idempotency_key = ${key}
    AND attempt = ${attempt}`;
}
