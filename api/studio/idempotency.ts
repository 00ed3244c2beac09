/** Idempotency-Key claims: one key, one request, one job (design §4). */
import { createHash } from 'node:crypto';
import { sql } from 'slonik';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import type { DatabasePool } from '../../platform/database.ts';

/** The header's value: printable ASCII, 1–255 characters (design §4). */
export const idempotencyKeyText = z
  .string()
  .regex(/^[\x21-\x7e]{1,255}$/, 'must be 1–255 printable characters');

/** A request that names a key. */
export interface KeyedRequest {
  organizationId: string;
  idempotencyKey: string;
  path: string;
  /** The parsed body: two spellings of one request are the same request. */
  body: unknown;
  newJobId: string;
}

/** The job that the key stands for; `replayed` when another request made it. */
export interface Claim {
  jobId: string;
  replayed: boolean;
}

/** Claims over a pool. */
export interface Idempotency {
  /** @throws GatewayError IDEMPOTENCY_KEY_REUSED, REQUEST_IN_PROGRESS */
  claim: (request: KeyedRequest) => Promise<Claim>;
  /** A refusal before admission gives the key back. */
  giveBack: (organizationId: string, jobId: string) => Promise<void>;
}

/** After this a claim without a job is taken over: whoever made it died before admission. */
const staleAfter = '10 seconds';

const claimAnswer = z.custom<{
  verdict: 'claimed' | 'same' | 'other' | 'in_progress';
  jobId: string;
}>();

/** See `Idempotency`. */
export function createIdempotency(pool: DatabasePool): Idempotency {
  return {
    async claim(request) {
      const fingerprint = createHash('sha256')
        .update(`${request.path}\n${JSON.stringify(request.body)}`)
        .digest('hex');
      const answer = await pool.oneFirst(sql.type(z.object({ answer: claimAnswer }))`
        SELECT claim_idempotency_key(${request.organizationId}, ${request.idempotencyKey},
          ${fingerprint}, ${request.newJobId}, ${staleAfter}::interval) AS answer`);
      if (answer.verdict === 'other') throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
      if (answer.verdict === 'in_progress') {
        throw new GatewayError('REQUEST_IN_PROGRESS', undefined, { retryAfterSeconds: 1 });
      }
      return { jobId: answer.jobId, replayed: answer.verdict === 'same' };
    },
    async giveBack(organizationId, jobId) {
      await pool.query(sql.type(z.object({}))`DELETE FROM idempotency_claim
        WHERE organization_id = ${organizationId} AND job_id = ${jobId}`);
    },
  };
}
