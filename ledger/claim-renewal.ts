/** Renews the claim of an Idempotency-Key while the request starts its job or chat. */
import { sql, type FragmentSqlToken } from 'slonik';
import { command, type DatabasePool } from '../platform/database.ts';
import type { Logger } from '../platform/logger.ts';
import {
  claimKey,
  requestInProgressError,
  claimDuration,
  claimCondition,
  type ClaimedKey,
  type ClaimId,
  type KeyableRequest,
  type UsedKey,
} from './claims.ts';

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
