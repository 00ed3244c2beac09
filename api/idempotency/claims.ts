/**
 * Claims of Idempotency-Keys: one key stands for one request and for the one job, chat or row that it creates (design §4).
 * All of them claim by the SQL function claim_key. The request that holds a claim has a token, renews the claim while it
 * waits, and stops when the claim has another token.
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
  /** Parsed body, so that the same request in another JSON formatting is the same. */
  body: unknown;
  /** Id of the job, chat or row to create. */
  subjectId: string;
}

/** Response as it was sent. */
export interface KeptAnswer {
  body: Buffer;
  contentType: string;
}

/** Claim as stored in the database. */
export interface ClaimName {
  organizationId: string;
  key: string;
  /** Token of the request that holds the claim. */
  attempt: string;
}

/** Result of a claim: the subject that was created before, or the claim of the new holder. */
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

/** Claim that is renewed until `giveBack`, `finish` or `leave` is called. */
export interface Hold {
  state: 'held';
  /** Claim in the database; null for a request without a key. */
  name: ClaimName | null;
  /** Id of the subject to create; another one than requested if a start with that id may still arrive. */
  subjectId: string;
  /**
   * Records that a start is about to be sent, which cannot be undone.
   * @throws GatewayError REQUEST_IN_PROGRESS if another request has taken the key over
   */
  starting: () => Promise<void>;
  /** Records that the ledger rejected the start, so that the key is free. */
  refused: () => void;
  /** Frees the key if nothing was or will be created under it; returns whether it is free. */
  giveBack: () => Promise<boolean>;
  /** Keeps the response for replays; never throws, because the response is sent in any case. */
  finish: (answer: { text: string; contentType: string }) => Promise<void>;
  /** Ends the renewal, because the row of the subject holds the key from now on. */
  leave: () => void;
}

/** Claims of Idempotency-Keys. */
export type Claims = ReturnType<typeof createClaims>;

/** Idempotency-Key: 1–255 printable ASCII characters (design §4). */
const keyText = z.string().regex(/^[\x21-\x7e]{1,255}$/, 'must be 1–255 printable characters');
const header = z.object({ 'Idempotency-Key': keyText });

/** Schema of the header in the descriptions of operations. */
export const idempotencyHeader = z.object({
  'Idempotency-Key': keyText
    .optional()
    .meta({ description: 'The same key and body are one request; another body is refused.' }),
});

/**
 * Returns the Idempotency-Key of a request; null if it has none.
 * @throws GatewayError INVALID_REQUEST
 */
export function idempotencyKeyOf(ctx: Pick<Context, 'headers'>): string | null {
  const given = ctx.headers['idempotency-key'];
  if (given === undefined) return null;
  return parseWith(header, { 'Idempotency-Key': given })['Idempotency-Key'];
}

/** Time after which a claim without renewal may be taken over, and a charge without a kept response is final. */
const holdFor = '10 seconds';
const renewalMs = 3000;

const row = z.object({
  verdict: z.enum(['claimed', 'done', 'other', 'in_progress', 'not_kept']),
  subject: z.string().nullable(),
  answer: z.instanceof(Buffer).nullable(),
  answer_type: z.string().nullable(),
});

/**
 * Claims a key. In a transaction, a second request waits for the first one and sees whether it was committed.
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
  const found = await connection.one(sql.type(row)`
    SELECT verdict, subject, answer, answer_type FROM claim_key(${organizationId}, ${key},
      ${fingerprint}, ${subjectId}, ${attempt}, ${holdFor}::interval)`);
  if (found.verdict === 'other') throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
  if (found.verdict === 'not_kept') throw new GatewayError('ANSWER_NOT_KEPT');
  if (found.verdict === 'in_progress') throw claimLost();
  const { answer, answer_type: contentType, subject } = found;
  assert(subject !== null, 'a claim that is held or done is for something');
  if (found.verdict === 'claimed') {
    return { state: 'claimed', subjectId: subject, name: { organizationId, key, attempt } };
  }
  const kept = answer && contentType ? { body: answer, contentType } : null;
  return { state: 'done', subjectId: subject, answer: kept };
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

/** Makes the claims over a pool. */
export function createClaims(pool: DatabasePool, logger: Logger) {
  return {
    /**
     * Claims the Idempotency-Key of a request, if it has one.
     * @throws GatewayError INVALID_REQUEST, and as `claimKey`
     */
    async hold(
      ctx: Context,
      wanted: Pick<KeyedRequest, 'path' | 'body' | 'subjectId'>,
    ): Promise<Hold | Done> {
      const idempotencyKey = idempotencyKeyOf(ctx);
      if (idempotencyKey === null) return unkeyedHold(wanted.subjectId);
      const { organizationId } = ctx.state.caller;
      const claim = await claimKey(pool, { ...wanted, organizationId, idempotencyKey });
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
  /** Runs a statement on the claim, and logs an error instead of failing the request: an unrenewed claim ends by itself. */
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
      const ours = await changed(sql.fragment`UPDATE idempotency_claim
        SET state = 'started', held_until = clock_timestamp() + ${holdFor}::interval
        WHERE ${named(name)}`);
      if (!ours) throw claimLost();
    },
    refused() {
      wasRefused = true;
    },
    async giveBack() {
      clearInterval(renewal);
      if (finished) return false;
      const freed = await quietly(sql.fragment`DELETE FROM idempotency_claim
        WHERE ${named(name)} AND (state = 'held' OR state = 'started' AND ${wasRefused})`);
      // A repeated request need not wait, because it finds what was started.
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
