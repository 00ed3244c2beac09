/**
 * Claims of Idempotency-Keys: one key, one request, one thing that is made (design §4). Jobs, chats and
 * what is made in one transaction claim by the same function (claim_key). Whoever holds a claim has a
 * token, renews it while it waits, and does nothing under a claim that names another one by now.
 */
import { createHash, randomUUID } from 'node:crypto';
import { sql, type CommonQueryMethods, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { GatewayError, assert } from '../../domain/errors.ts';
import type { DatabasePool } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Context } from '../context.ts';
import { parseWith } from '../middleware/parsing.ts';

/** A request that names a key. */
export interface KeyedRequest {
  organizationId: string;
  idempotencyKey: string;
  path: string;
  /** The parsed body: two spellings of one request are the same request. */
  body: unknown;
  /** Id of what is to be made. */
  subjectId: string;
}

/** An answer as it was sent. */
export interface KeptAnswer {
  body: Buffer;
  contentType: string;
}

/** A claim as it is named in the database. */
export interface ClaimName {
  organizationId: string;
  key: string;
  /** Token of the request that holds it. */
  attempt: string;
}

/** What a key stands for: something that was made, or whatever its new holder is going to make. */
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

/** A claim that is renewed until it ends. One of `giveBack`, `finish` and `leave` ends it. */
export interface Hold {
  state: 'held';
  /** Null for a request without a key. */
  name: ClaimName | null;
  /** Id of what is to be made; not the wanted one where a start of another id may still arrive. */
  subjectId: string;
  /**
   * To be called before a start is sent that cannot be called back.
   * @throws GatewayError REQUEST_IN_PROGRESS when somebody else has taken the key over
   */
  starting: () => Promise<void>;
  /** The ledger itself has refused what was started: there is nothing under the key. */
  refused: () => void;
  /** Frees the key if nothing was, or will be, made under it; tells whether that is so. */
  giveBack: () => Promise<boolean>;
  /** Keeps the answer. An answer is worth more than its record: this never throws. */
  finish: (answer: { text: string; contentType: string }) => Promise<void>;
  /** What was made speaks for itself from now on. */
  leave: () => void;
}

/** Claims of Idempotency-Keys. */
export type Claims = ReturnType<typeof createClaims>;

/** Printable ASCII, 1–255 characters (design §4). */
const keyText = z.string().regex(/^[\x21-\x7e]{1,255}$/, 'must be 1–255 printable characters');
const header = z.object({ 'Idempotency-Key': keyText });

/** The header as operations with it are described. */
export const idempotencyHeader = z.object({
  'Idempotency-Key': keyText
    .optional()
    .meta({ description: 'The same key and body are one request; another body is refused.' }),
});

/**
 * The key of a request; null when it names none.
 * @throws GatewayError INVALID_REQUEST
 */
export function idempotencyKeyOf(ctx: Pick<Context, 'headers'>): string | null {
  const given = ctx.headers['idempotency-key'];
  if (given === undefined) return null;
  return parseWith(header, { 'Idempotency-Key': given })['Idempotency-Key'];
}

/** After this a claim is taken over that nobody renews, and a charge without an answer is believed. */
const holdFor = '10 seconds';
const renewalMs = 3000;

const none = z.object({});
const row = z.object({
  verdict: z.enum(['claimed', 'done', 'other', 'in_progress', 'not_kept']),
  subject: z.string().nullable(),
  answer: z.instanceof(Buffer).nullable(),
  answer_type: z.string().nullable(),
});

/**
 * Claims a key. In a transaction who comes second waits for the first, and finds it done or undone.
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

/** A claim whose work is done in the same transaction. */
export async function finishClaim(connection: CommonQueryMethods, name: ClaimName): Promise<void> {
  await connection.query(sql.type(none)`
    UPDATE idempotency_claim SET state = 'done' WHERE ${named(name)}`);
}

/** The answer to who asks for what somebody else is making. */
function claimLost(): GatewayError {
  return new GatewayError('REQUEST_IN_PROGRESS', undefined, { retryAfterSeconds: 1 });
}

/** Claims over a pool. */
export function createClaims(pool: DatabasePool, logger: Logger) {
  return {
    /**
     * Claims the key of a request, if it names one.
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

/** What a request without a key holds: nobody else can be in its way. */
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
    return (await pool.query(sql.type(none)`${query}`)).rowCount > 0;
  }
  /** Rows of claims are never worth an answer; a claim that is left alone ends by itself. */
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
      // Whoever repeats the request need not wait: it finds what was started.
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
