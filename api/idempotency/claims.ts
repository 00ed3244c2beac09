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
import { command, type DatabasePool } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Context } from '../context.ts';
import { parseWith } from '../http/parsing.ts';

/** Request with an Idempotency-Key. */
export interface KeyedRequest {
  organizationId: string;
  idempotencyKey: string;
  path: string;
  /** Parsed body, so that the same request with another JSON formatting is recognized. */
  body: unknown;
  /** Id of the job, chat or row to create. */
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

/**
 * Result of a claim: the subject that an earlier request created, or the claim that this request
 * holds now.
 */
export type Claim = Done | Claimed;
interface Done {
  state: 'done';
  subjectId: string;
  answer: KeptAnswer | null;
}
interface Claimed {
  state: 'claimed';
  subjectId: string;
  name: ClaimName;
}

/** Claim that this request holds; it is renewed until `giveBack`, `finish` or `leave` is called. */
export interface Hold {
  state: 'held';
  /** Claim in the database; null for a request without a key. */
  name: ClaimName | null;
  /**
   * Id of the subject to create. It differs from the requested id if an earlier request with this
   * key may have sent a start with this id.
   */
  subjectId: string;
  /**
   * Records that the start of the subject is about to be sent. A start cannot be undone, so its id
   * must be used again.
   * @throws GatewayError REQUEST_IN_PROGRESS if another request has taken the key over
   */
  starting: () => Promise<void>;
  /** Records that the ledger rejected the start, so that `giveBack` frees the key. */
  refused: () => void;
  /** Frees the key if nothing was or will be created with it; returns whether the key is free. */
  giveBack: () => Promise<boolean>;
  /** Stores the response for replays; never throws, because the response is sent in any case. */
  finish: (answer: { text: string; contentType: string }) => Promise<void>;
  /** Ends the renewal, because the row of the subject reserves the key from now on. */
  leave: () => void;
}

/** Claims of Idempotency-Keys. */
export type Claims = ReturnType<typeof createClaims>;

/** Schema of an Idempotency-Key: 1–255 printable ASCII characters without spaces (design §4). */
const keyText = z.string().regex(/^[\x21-\x7e]{1,255}$/, 'must be 1–255 printable characters');
const header = z.object({ 'Idempotency-Key': keyText });

/** Schema of the header in the descriptions of endpoints. */
export const idempotencyHeader = z.object({
  'Idempotency-Key': keyText.optional().meta({
    description:
      'A repeated request with the same key and body returns the first result; a different body is rejected.',
  }),
});

/**
 * Returns the Idempotency-Key of a request; null if it has none.
 * @throws GatewayError INVALID_REQUEST
 */
export function idempotencyKeyOf(ctx: Pick<Context, 'headers'>): string | null {
  const key = ctx.headers['idempotency-key'];
  if (key === undefined) return null;
  return parseWith(header, { 'Idempotency-Key': key })['Idempotency-Key'];
}

/**
 * Time after which another request may take over a claim that is not renewed, and after which a
 * chat that was charged without a stored response is ANSWER_NOT_KEPT.
 */
const holdFor = '10 seconds';
/** Time between two renewals of a claim, in milliseconds. */
const renewalMs = 3000;

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
  if (result.verdict === 'in_progress') throw claimLost();
  const { answer, answer_type: contentType, subject } = result;
  assert(subject !== null, 'a claim that is held or done has a subject');
  if (result.verdict === 'claimed') {
    return { state: 'claimed', subjectId: subject, name: { organizationId, key, attempt } };
  }
  const response = answer && contentType ? { body: answer, contentType } : null;
  return { state: 'done', subjectId: subject, answer: response };
}

/** Marks a claim as done, in the transaction that created its subject. */
export async function finishClaim(connection: CommonQueryMethods, name: ClaimName): Promise<void> {
  await connection.query(command`
    UPDATE idempotency_claim SET state = 'done' WHERE ${named(name)}`);
}

/** Makes the error for a request whose key is held by another one. */
function claimLost(): GatewayError {
  return new GatewayError('REQUEST_IN_PROGRESS', undefined, { retryAfterSeconds: 1 });
}

/** Makes the function that claims keys, over a pool. */
export function createClaims(pool: DatabasePool, logger: Logger) {
  return {
    /**
     * Claims the Idempotency-Key of a request; if it has none, returns a hold that no other request
     * can take over.
     * @throws GatewayError INVALID_REQUEST, and the errors of `claimKey`
     */
    async hold(
      ctx: Context,
      request: Pick<KeyedRequest, 'path' | 'body' | 'subjectId'>,
    ): Promise<Hold | Done> {
      const idempotencyKey = idempotencyKeyOf(ctx);
      if (idempotencyKey === null) return unkeyedHold(request.subjectId);
      const { organizationId } = ctx.state.caller;
      const claim = await claimKey(pool, { ...request, organizationId, idempotencyKey });
      return claim.state === 'done' ? claim : holdOf(pool, logger, claim);
    },
  };
}

/** Makes the hold of a request without a key, which no other request can take over. */
function unkeyedHold(subjectId: string): Hold {
  let started = false;
  return {
    state: 'held',
    name: null,
    subjectId,
    starting() {
      started = true;
      return Promise.resolve();
    },
    refused() {
      started = false;
    },
    giveBack: () => Promise.resolve(!started),
    finish: () => Promise.resolve(),
    leave: () => {},
  };
}

function holdOf(pool: DatabasePool, logger: Logger, { name, subjectId }: Claimed): Hold {
  let wasRefused = false;
  let finished = false;
  async function changed(query: FragmentSqlToken): Promise<boolean> {
    return (await pool.query(command`${query}`)).rowCount > 0;
  }
  /**
   * Runs a statement on the claim, and only logs an error, because a claim that is not renewed
   * expires by itself.
   */
  const quietly = (query: FragmentSqlToken): Promise<boolean> =>
    changed(query).catch((error: unknown) => {
      logger.warn({ error }, 'idempotency.claim_not_recorded');
      return false;
    });
  const renewal = setInterval(() => {
    void quietly(sql.fragment`UPDATE idempotency_claim
      SET held_until = clock_timestamp() + ${holdFor}::interval WHERE ${named(name)}`);
  }, renewalMs);
  return {
    state: 'held',
    name,
    subjectId,
    async starting() {
      const isHeld = await changed(sql.fragment`UPDATE idempotency_claim
        SET state = 'started', held_until = clock_timestamp() + ${holdFor}::interval
        WHERE ${named(name)}`);
      if (!isHeld) throw claimLost();
    },
    refused() {
      wasRefused = true;
    },
    async giveBack() {
      clearInterval(renewal);
      if (finished) return false;
      const freed = await quietly(sql.fragment`DELETE FROM idempotency_claim
        WHERE ${named(name)} AND (state = 'held' OR state = 'started' AND ${wasRefused})`);
      // The claim expires now, so that a repeated request continues at once with the job that was
      // started.
      if (!freed) {
        await quietly(sql.fragment`UPDATE idempotency_claim SET held_until = clock_timestamp()
          WHERE ${named(name)}`);
      }
      return freed;
    },
    async finish({ text, contentType }) {
      clearInterval(renewal);
      finished = true;
      const body = Buffer.from(text);
      await quietly(sql.fragment`UPDATE idempotency_claim
        SET state = 'done', answer = ${sql.binary(body)}, answer_type = ${contentType}
        WHERE ${named(name)}`);
    },
    leave: () => clearInterval(renewal),
  };
}

function named({ organizationId, key, attempt }: ClaimName): FragmentSqlToken {
  return sql.fragment`organization_id = ${organizationId} AND idempotency_key = ${key}
    AND attempt = ${attempt}`;
}
