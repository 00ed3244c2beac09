/** Holds: a request keeps the claim of its Idempotency-Key while it starts a job or chat. */
import { sql, type FragmentSqlToken } from 'slonik';
import { command, type DatabasePool } from '../../platform/database.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Context } from '../context.ts';
import {
  claimKey,
  makeClaimLostError,
  holdFor,
  claimCondition,
  type Claimed,
  type ClaimName,
  type Done,
  type KeyedRequest,
} from './claims.ts';
import { idempotencyKeyOf } from './idempotency-key.ts';

/** Time between two renewals of a claim, in milliseconds. */
const renewalMs = 3000;

/** Claim that this request holds; it is renewed until `giveBack`, `finish` or `leave` is called. */
export interface Hold {
  state: 'held';
  /** Claim in the database; null for a request without a key. */
  name: ClaimName | null;
  /** Id of the subject; the one of an earlier request that may have been started. */
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

export type Claims = ReturnType<typeof createClaims>;

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
      if (idempotencyKey === null) return makeUnkeyedHold(request.subjectId);
      const { organizationId } = ctx.state.caller;
      const claim = await claimKey(pool, { ...request, organizationId, idempotencyKey });
      return claim.state === 'done' ? claim : makeHold(pool, logger, claim);
    },
  };
}

/** Makes the hold of a request without a key, which no other request can take over. */
function makeUnkeyedHold(subjectId: string): Hold {
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

function makeHold(pool: DatabasePool, logger: Logger, { name, subjectId }: Claimed): Hold {
  let wasRefused = false;
  let finished = false;
  async function changed(query: FragmentSqlToken): Promise<boolean> {
    return (await pool.query(command`${query}`)).rowCount > 0;
  }
  /** Runs a statement on the claim and only logs an error, because claims expire. */
  const quietly = (query: FragmentSqlToken): Promise<boolean> =>
    changed(query).catch((error: unknown) => {
      logger.warn({ error }, 'idempotency.claim_not_recorded');
      return false;
    });
  const renewal = setInterval(() => {
    void quietly(sql.fragment`UPDATE idempotency_claim
      SET held_until = clock_timestamp() + ${holdFor}::interval WHERE ${claimCondition(name)}`);
  }, renewalMs);
  return {
    state: 'held',
    name,
    subjectId,
    async starting() {
      const isHeld = await changed(sql.fragment`UPDATE idempotency_claim
        SET state = 'started', held_until = clock_timestamp() + ${holdFor}::interval
        WHERE ${claimCondition(name)}`);
      if (!isHeld) throw makeClaimLostError();
    },
    refused() {
      wasRefused = true;
    },
    async giveBack() {
      clearInterval(renewal);
      if (finished) return false;
      const freed = await quietly(sql.fragment`DELETE FROM idempotency_claim
        WHERE ${claimCondition(name)} AND (state = 'held' OR state = 'started' AND ${wasRefused})`);
      // The claim expires now, so that a repeated request continues at once with the job that was
      // started.
      if (!freed) {
        await quietly(sql.fragment`UPDATE idempotency_claim SET held_until = clock_timestamp()
          WHERE ${claimCondition(name)}`);
      }
      return freed;
    },
    async finish({ text, contentType }) {
      clearInterval(renewal);
      finished = true;
      const body = Buffer.from(text);
      await quietly(sql.fragment`UPDATE idempotency_claim
        SET state = 'done', answer = ${sql.binary(body)}, answer_type = ${contentType}
        WHERE ${claimCondition(name)}`);
    },
    leave: () => clearInterval(renewal),
  };
}
