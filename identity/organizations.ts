/** Creates, lists and changes organizations and their users, for operators. */
import { sql, type CommonQueryMethods, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { accountColumns, accountState } from '../ledger/ledger.ts';
import { GatewayError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import { organizationStatusSchema, roleSchema } from './access.ts';

const idRow = z.object({ id: z.string() });

/**
 * Organization with its account. Amounts are in micro-credits, times in milliseconds since 1970.
 */
const organizationRecord = accountState.extend({
  organizationId: z.string(),
  name: z.string(),
  status: organizationStatusSchema,
  createdAtMs: z.number(),
  /** Requests per minute, and jobs that may be open at the same time. Null: default, no limit. */
  rateLimit: z.number().nullable(),
  jobsMax: z.number().nullable(),
});
export type OrganizationRecord = z.infer<typeof organizationRecord>;

/** User of an organization. */
export const userRecord = z.object({
  userId: z.string(),
  organizationId: z.string(),
  name: z.string(),
  role: roleSchema,
  createdAtMs: z.number(),
  keys: z.int().meta({ description: 'Number of API keys that are not revoked.' }),
});
export type UserRecord = z.infer<typeof userRecord>;

interface NewOrganization {
  name: string;
  /** Maximum Studio spending per six-hour window in micro-credits. Null if there is no limit. */
  windowLimitMicro: number | null;
  rateLimit?: number | null;
  jobsMax?: number | null;
}

/** Creates an organization with an empty account and an owner, in one transaction. */
export async function createOrganization(
  pool: Pick<DatabasePool, 'transaction'>,
  organization: NewOrganization,
): Promise<{ organizationId: string; userId: string }> {
  const organizationId = newId('organization');
  const userId = await pool.transaction(async (connection) => {
    await connection.query(command`INSERT INTO organization (id, name, rate_limit)
      VALUES (${organizationId}, ${organization.name}, ${organization.rateLimit ?? null})`);
    await connection.query(command`INSERT INTO account (organization_id, window_limit, jobs_max)
      VALUES (${organizationId}, ${organization.windowLimitMicro}, ${organization.jobsMax ?? null})`);
    return createUser(connection, { organizationId, name: 'Owner', role: 'owner' });
  });
  return { organizationId, userId };
}

interface NewUser {
  organizationId: string;
  name: string;
  role: z.infer<typeof roleSchema>;
}

/**
 * Creates a user and returns its id.
 * @throws GatewayError NOT_FOUND if the organization is unknown
 */
export async function createUser(connection: CommonQueryMethods, user: NewUser): Promise<string> {
  const id = await connection.maybeOneFirst(sql.type(idRow)`
    INSERT INTO app_user (id, organization_id, name, role)
    SELECT ${newId('user')}, o.id, ${user.name}, ${user.role} FROM organization o
      WHERE o.id = ${user.organizationId}
    RETURNING id`);
  if (id === null) throw unknownOrganizationError();
  return id;
}

interface OrganizationListing {
  status?: OrganizationRecord['status'] | undefined;
  /** Text that the name of the organization must contain, regardless of case. */
  name?: string | undefined;
  beforeId?: string | undefined;
  limit: number;
}

const selectOrganizations = (where: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  SELECT o.id AS "organizationId", o.name, o.status, o.created_at AS "createdAtMs",
    o.rate_limit AS "rateLimit", a.jobs_max AS "jobsMax", ${accountColumns}
  FROM organization o JOIN account a ON a.organization_id = o.id
  WHERE ${where}`;

/** Lists organizations, newest first. */
export function listOrganizations(
  connection: CommonQueryMethods,
  { status, name, beforeId, limit }: OrganizationListing,
): Promise<readonly OrganizationRecord[]> {
  const where = [
    sql.fragment`true`,
    ...(status === undefined ? [] : [sql.fragment`o.status = ${status}`]),
    ...(name === undefined ? [] : [sql.fragment`strpos(lower(o.name), lower(${name}::text)) > 0`]),
    // Later organizations have higher ids.
    ...(beforeId === undefined ? [] : [sql.fragment`o.id < ${beforeId}`]),
  ];
  return connection.any(sql.type(organizationRecord)`
    ${selectOrganizations(sql.fragment`${sql.join(where, sql.fragment` AND `)}`)}
    ORDER BY o.id DESC LIMIT ${limit}`);
}

const nameRow = z.object({ id: z.string(), name: z.string() });

/** Adds the name of the organization to each row. */
export async function addOrganizationNames<Row extends { organizationId: string }>(
  connection: CommonQueryMethods,
  rows: readonly Row[],
): Promise<(Row & { organizationName: string })[]> {
  const ids = [...new Set(rows.map(({ organizationId }) => organizationId))];
  const names = await connection.any(
    sql.type(nameRow)`SELECT id, name FROM organization WHERE id = ANY(${sql.array(ids, 'text')})`,
  );
  const byId = new Map(names.map(({ id, name }) => [id, name]));
  return rows.map((row) => ({ ...row, organizationName: byId.get(row.organizationId) ?? '' }));
}

/** Reads an organization. @throws GatewayError NOT_FOUND */
export async function readOrganization(
  connection: CommonQueryMethods,
  organizationId: string,
): Promise<OrganizationRecord> {
  const organization = await connection.maybeOne(
    sql.type(organizationRecord)`${selectOrganizations(sql.fragment`o.id = ${organizationId}`)}`,
  );
  if (!organization) throw unknownOrganizationError();
  return organization;
}

/** Suspends or activates an organization. @throws GatewayError NOT_FOUND */
export async function setOrganizationStatus(
  connection: CommonQueryMethods,
  organizationId: string,
  status: OrganizationRecord['status'],
): Promise<void> {
  const { rowCount } = await connection.query(command`
    UPDATE organization SET status = ${status} WHERE id = ${organizationId}`);
  if (rowCount === 0) throw unknownOrganizationError();
}

/** Limits Studio spending per six hours; null removes the limit. @throws GatewayError NOT_FOUND */
export async function setWindowLimit(
  connection: CommonQueryMethods,
  organizationId: string,
  windowLimitMicro: number | null,
): Promise<void> {
  const { rowCount } = await connection.query(command`
    UPDATE account SET window_limit = ${windowLimitMicro} WHERE organization_id = ${organizationId}`);
  if (rowCount === 0) throw unknownOrganizationError();
}

/**
 * Limits the requests per minute and the open jobs of an organization. Null removes a limit,
 * and an omitted one stays. @throws GatewayError NOT_FOUND
 */
export async function setOrganizationLimits(
  connection: CommonQueryMethods,
  organizationId: string,
  {
    rateLimit,
    jobsMax,
  }: { rateLimit?: number | null | undefined; jobsMax?: number | null | undefined },
): Promise<void> {
  const { rowCount } = await connection.query(command`
    UPDATE organization SET rate_limit = CASE WHEN ${rateLimit === undefined} THEN rate_limit
      ELSE ${rateLimit ?? null}::integer END WHERE id = ${organizationId}`);
  if (rowCount === 0) throw unknownOrganizationError();
  await connection.query(command`
    UPDATE account SET jobs_max = CASE WHEN ${jobsMax === undefined} THEN jobs_max
      ELSE ${jobsMax ?? null}::integer END WHERE organization_id = ${organizationId}`);
}

const selectUsers = sql.fragment`SELECT m.id AS "userId", m.organization_id AS "organizationId",
    m.name, m.role, m.created_at AS "createdAtMs",
    (SELECT count(*) FROM api_key k WHERE k.user_id = m.id AND k.revoked_at IS NULL
      AND (k.replaced_by IS NULL OR k.expires_at > now())) AS keys
  FROM app_user m`;

/** Lists the users of an organization, oldest first. */
export function listUsers(
  connection: CommonQueryMethods,
  organizationId: string,
  limit: number,
): Promise<readonly UserRecord[]> {
  return connection.any(sql.type(userRecord)`${selectUsers}
    WHERE m.organization_id = ${organizationId} ORDER BY m.id LIMIT ${limit}`);
}

/** Reads a user. @throws GatewayError NOT_FOUND */
export async function readUser(
  connection: CommonQueryMethods,
  userId: string,
): Promise<UserRecord> {
  const user = await connection.maybeOne(sql.type(userRecord)`${selectUsers}
    WHERE m.id = ${userId}`);
  if (!user) throw new GatewayError('NOT_FOUND', 'No such user.');
  return user;
}

function unknownOrganizationError(): GatewayError {
  return new GatewayError('NOT_FOUND', 'No such organization.');
}
