/** Reads and changes the limits of end users (end-user-limits.sql). */
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { keyBudget, microFromCredits } from '../domain/credits.ts';
import { allEndUsers } from '../domain/end-users.ts';
import { GatewayError } from '../domain/errors.ts';
import type { JsonObject } from '../domain/json.ts';
import type { DatabasePool } from '../platform/database.ts';

/** Schema of a field that an end user inherits from all others. */
export const inheritedField = z.enum(['suspended', 'limit', 'rateLimit']);

/** Limits of an end user with what it has used of them. Amounts of the budget are micro-credits. */
const limitedEndUser = z.object({
  endUser: z.string(),
  suspended: z.boolean(),
  limit: z.object({ credits: z.number(), per: keyBudget.shape.per }).nullable(),
  rateLimit: z.number().nullable(),
  /** Fields without a value of its own, which are those of all others. */
  inherited: z.array(inheritedField),
  budget: keyBudget.nullable(),
});
export type LimitedEndUser = z.infer<typeof limitedEndUser>;

interface ChangedEndUser {
  organizationId: string;
  /** End user, or `*` for all without limits of their own. */
  endUser: string;
  /** Key that authenticates the request. */
  actingKeyId: string;
}

/** Change of limits: null removes a limit, and an omitted field stays, or is inherited. */
interface EndUserChange extends ChangedEndUser {
  limit?: { credits: number; per: string } | null | undefined;
  rateLimit?: number | null | undefined;
  suspended?: boolean | undefined;
}

const verdictRow = z.object({
  verdict: z.enum(['set', 'removed', 'absent', 'acting_key_limited']),
});
const idRow = z.object({ id: z.string() });

/** Creates the functions that read and change the limits of end users. */
export function createEndUserLimits(pool: DatabasePool) {
  const readAll = (
    organizationId: string,
    endUsers: readonly string[],
  ): Promise<readonly LimitedEndUser[]> =>
    pool.any(sql.type(limitedEndUser)`
      SELECT e.id AS "endUser", coalesce(l.suspended, false) AS suspended, l.rate_limit AS "rateLimit",
        CASE WHEN l.limit_micro IS NOT NULL THEN jsonb_build_object('credits', trim_scale(l.limit_micro / 1000000.0),
          'per', l.limit_per) END AS "limit",
        CASE WHEN e.id = ${allEndUsers} THEN '{}' ELSE l.inherited END AS inherited,
        CASE WHEN e.id <> ${allEndUsers}
          THEN end_user_budget_state(l, end_user_budget(${organizationId}, e.id), NULL) END AS budget
      FROM unnest(${sql.array([...endUsers], 'text')}) WITH ORDINALITY AS e(id, position)
        LEFT JOIN LATERAL limits_of_end_user(${organizationId}, e.id) AS l ON true
      ORDER BY e.position`);
  async function read(organizationId: string, endUser: string): Promise<LimitedEndUser> {
    const [found] = await readAll(organizationId, [endUser]);
    if (!found) throw new GatewayError('NOT_FOUND');
    return found;
  }
  /** Runs a change. @throws GatewayError FORBIDDEN if the acting key has limits */
  async function change(statement: FragmentSqlToken) {
    const verdict = await pool.oneFirst(sql.type(verdictRow)`SELECT ${statement} AS verdict`);
    if (verdict === 'acting_key_limited')
      throw new GatewayError('FORBIDDEN', 'A key that has a limit may not change limits.');
    return verdict;
  }
  return {
    read,
    /** Lists end users behind `after`: those with limits, and those for whom something was spent. */
    async list(organizationId: string, after: string, limit: number) {
      const ids = await pool.anyFirst(
        sql.type(idRow)`SELECT list_end_users(${organizationId}, ${after}, ${limit}) AS id`,
      );
      return readAll(organizationId, ids);
    },
    /** Changes the limits of an end user. @throws GatewayError FORBIDDEN if the acting key has limits */
    async set({
      limit,
      rateLimit,
      suspended,
      endUser,
      ...changed
    }: EndUserChange): Promise<LimitedEndUser> {
      const micro = limit && { micro: microFromCredits(limit.credits), per: limit.per };
      const request: JsonObject = {
        ...changed,
        id: endUser,
        ...(limit !== undefined && { limit: micro ?? null }),
        ...(rateLimit !== undefined && { rateLimit }),
        ...(suspended !== undefined && { suspended }),
      };
      await change(sql.fragment`set_end_user(${sql.jsonb(request)})`);
      return read(changed.organizationId, endUser);
    },
    /** Removes the limits of an end user. Returns whether it had any. @throws GatewayError FORBIDDEN if the acting key has limits */
    async remove({ organizationId, endUser, actingKeyId }: ChangedEndUser): Promise<boolean> {
      const statement = sql.fragment`remove_end_user(${organizationId}, ${endUser}, ${actingKeyId})`;
      return (await change(statement)) === 'removed';
    },
  };
}
