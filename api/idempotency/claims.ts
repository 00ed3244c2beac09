/**
 * Claims of Idempotency-Keys: one key identifies one request and the one job, chat or row that the
 * request creates (design §4). All requests claim a key with the SQL function claim_key. The
 * request that holds a claim has a token and renews the claim while it runs. If the claim has
 * another token, another request has taken it over, and the first request stops.
 */
import { createHash, randomUUID } from 'node:crypto';
import { sql, type CommonQueryMethods, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { GatewayError, assert } from '../../domain/errors.ts';
import { command } from '../../platform/database.ts';
import type { Context } from '../context.ts';
import { idempotencyKeyOf } from './idempotency-key.ts';

/** Request with an Idempotency-Key. */
export interface KeyedRequest {
  organizationId: string;
  idempotencyKey: string;
  path: string;
  /** Parsed body, so that the same request with another JSON formatting is recognized. */
  body: unknown;
  subjectId: string;
}

/** Response that was sent, kept for replays. */
export interface KeptAnswer {
  body: Buffer;
  contentType: string;
}

/** Primary key and token of a claim in the database. */
export interface ClaimName {
  organizationId: string;
  key: string;
  /** Token of the request that holds the claim. */
  attempt: string;
}

/** Result of a claim: the subject of an earlier request, or the claim of this one. */
export type Claim = Done | Claimed;
/** Subject that an earlier request created. */
export interface Done {
  state: 'done';
  subjectId: string;
  answer: KeptAnswer | null;
}
/** Claim that this request holds now. */
export interface Claimed {
  state: 'claimed';
  subjectId: string;
  name: ClaimName;
}

/** Time after which a claim may be taken over, and a charged chat is ANSWER_NOT_KEPT. */
export const holdFor = '10 seconds';
const row = z.object({
  verdict: z.enum(['claimed', 'done', 'other', 'in_progress', 'not_kept']),
  subject: z.string().nullable(),
  answer: z.instanceof(Buffer).nullable(),
  answer_type: z.string().nullable(),
});

/**
 * Claims a key. If the first request claimed it in an open transaction, a second request waits
 * until that ends.
 * @throws GatewayError IDEMPOTENCY_KEY_REUSED, REQUEST_IN_PROGRESS, ANSWER_NOT_KEPT
 */
export async function claimKey(
  connection: CommonQueryMethods,
  request: KeyedRequest,
): Promise<Claim> {
  const { organizationId, idempotencyKey: key, path, body, subjectId } = request;
  const attempt = randomUUID();
  const fingerprint = createHash('sha256')
    .update(`${path}\n${JSON.stringify(body)}`)
    .digest('hex');
  const result = await connection.one(sql.type(row)`
    SELECT verdict, subject, answer, answer_type FROM claim_key(${organizationId}, ${key},
      ${fingerprint}, ${subjectId}, ${attempt}, ${holdFor}::interval)`);
  if (result.verdict === 'other') throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
  if (result.verdict === 'not_kept') throw new GatewayError('ANSWER_NOT_KEPT');
  if (result.verdict === 'in_progress') throw makeClaimLostError();
  const { answer, answer_type: contentType, subject } = result;
  assert(subject !== null, 'a claim that is held or done has a subject');
  if (result.verdict === 'claimed') {
    return { state: 'claimed', subjectId: subject, name: { organizationId, key, attempt } };
  }
  const response = answer && contentType ? { body: answer, contentType } : null;
  return { state: 'done', subjectId: subject, answer: response };
}

/**
 * Claims the Idempotency-Key of a request in the transaction that creates its subject.
 * @returns the id of the subject that an earlier request with this key created; null: none
 * @throws GatewayError INVALID_REQUEST, and the errors of `claimKey`
 */
export async function claimInTransaction(
  connection: CommonQueryMethods,
  ctx: Pick<Context, 'headers'>,
  request: Omit<KeyedRequest, 'idempotencyKey'>,
): Promise<string | null> {
  const idempotencyKey = idempotencyKeyOf(ctx);
  if (idempotencyKey === null) return null;
  const claim = await claimKey(connection, { ...request, idempotencyKey });
  if (claim.state === 'done') return claim.subjectId;
  await connection.query(command`
    UPDATE idempotency_claim SET state = 'done' WHERE ${claimCondition(claim.name)}`);
  return null;
}

/** Makes the error for a request whose key is held by another one. */
export function makeClaimLostError(): GatewayError {
  return new GatewayError('REQUEST_IN_PROGRESS', undefined, { retryAfterSeconds: 1 });
}

/** Makes the condition that selects a claim with its token. */
export function claimCondition({ organizationId, key, attempt }: ClaimName): FragmentSqlToken {
  return sql.fragment`organization_id = ${organizationId} AND idempotency_key = ${key}
    AND attempt = ${attempt}`;
}
