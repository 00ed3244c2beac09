/**
 * Browser tokens: keys for the pages of an end user. A token is made by an API key, is valid for at most an
 * hour, and ends with that key (docs/decisions/0022-browser-tokens.md). Its requests are admitted
 * apart from those of API keys (browser-tokens.sql), and its spending is counted in its row (ledger/ledger.sql).
 */
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import { creditsFromMicro, microFromCredits } from '../domain/credits.ts';
import { fieldError, GatewayError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import { isoTime } from '../domain/json.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import {
  browserTokenPrefix,
  calculateKeyMac,
  generateApiKey,
  scopes as keyScopes,
  type Caller,
} from './access.ts';

/** Schema of a scope that a browser token can have: none that reads or changes the account. */
export const tokenScope = z.enum(keyScopes).exclude(['keys:read', 'keys:write', 'usage:read']);

/** Maximum lifetime of a token in seconds. */
export const tokenSecondsMax = 3600;
/** Maximum number of valid tokens of an end user, so that a page in a loop fills no table. */
export const tokensMax = 100;

/** Token as its organization sees it, without the secret. */
export const browserToken = z
  .object({
    tokenId: z.string(),
    endUser: z.string(),
    keyId: z.string().meta({ description: 'API key that made the token.' }),
    scopes: z.array(tokenScope),
    allowedModels: z
      .array(z.string())
      .nullable()
      .meta({ description: 'Ids of the allowed models. Null if all models are allowed.' }),
    maxCredits: z.number().nullable().meta({
      description: 'Maximum credits. Null if only the limits of its end user and key apply.',
    }),
    spentCredits: z.number().meta({ description: 'Credits reserved and charged with the token.' }),
    createdAt: z.iso.datetime(),
    expiresAt: z.iso.datetime(),
  })
  .meta({ id: 'BrowserToken' });
export type BrowserToken = z.infer<typeof browserToken>;

const tokenRow = browserToken
  .omit({ maxCredits: true, spentCredits: true, createdAt: true, expiresAt: true })
  .extend({
    maxMicro: z.number().nullable(),
    spentMicro: z.number(),
    createdAtMs: z.number(),
    expiresAtMs: z.number(),
  });
const columns = sql.fragment`t.id AS "tokenId", t.end_user AS "endUser", t.key_id AS "keyId", t.scopes,
  t.allowed_models AS "allowedModels", t.max_micro AS "maxMicro", t.spent_micro AS "spentMicro",
  t.created_at AS "createdAtMs", t.expires_at AS "expiresAtMs"`;

const show = ({ maxMicro, spentMicro, createdAtMs, expiresAtMs, ...row }: TokenRow) => ({
  ...row,
  maxCredits: maxMicro === null ? null : creditsFromMicro(maxMicro),
  spentCredits: creditsFromMicro(spentMicro),
  createdAt: isoTime(createdAtMs),
  expiresAt: isoTime(expiresAtMs),
});
type TokenRow = z.infer<typeof tokenRow>;

/** Request for a token. Omitted scopes and models are those of the key that makes it. */
export interface TokenRequest {
  maker: Pick<Caller, 'organizationId' | 'keyId' | 'scopes' | 'allowedModels'>;
  endUser: string;
  expiresInSeconds: number;
  scopes?: readonly z.infer<typeof tokenScope>[] | undefined;
  allowedModels?: readonly string[] | null | undefined;
  maxCredits?: number | null | undefined;
}

/** Returns the permissions of a new token. @throws GatewayError FORBIDDEN if they exceed those of its maker */
function choosePermissions({ maker, ...requested }: TokenRequest) {
  const scopes =
    requested.scopes ?? tokenScope.options.filter((scope) => maker.scopes.includes(scope));
  const allowedModels = requested.allowedModels ?? maker.allowedModels;
  const allowed = maker.allowedModels;
  const exceeds = scopes.some((scope) => !maker.scopes.includes(scope))
    ? 'scopes'
    : allowed && allowedModels?.some((model) => !allowed.includes(model)) && 'allowedModels';
  if (exceeds)
    throw fieldError(
      'FORBIDDEN',
      exceeds,
      'must not exceed the permissions of the key that makes the token',
    );
  if (scopes.length === 0)
    throw new GatewayError('FORBIDDEN', 'This key has no scope that a browser token can have.');
  return { scopes, allowedModels };
}

/**
 * Creates a token within a transaction. Its secret is returned once and never stored.
 * @throws GatewayError FORBIDDEN, KEY_QUOTA_REACHED
 */
export async function createBrowserToken(
  connection: CommonQueryMethods,
  pepper: string,
  request: TokenRequest,
): Promise<BrowserToken & { token: string }> {
  const { maker, endUser, expiresInSeconds, maxCredits } = request;
  const { scopes, allowedModels } = choosePermissions(request);
  const token = generateApiKey(browserTokenPrefix);
  const maxMicro = maxCredits == null ? null : microFromCredits(maxCredits);
  // Orders the creations for an end user, so that none of them misses another.
  const owner = `${maker.organizationId}/${endUser}`;
  await connection.query(command`SELECT pg_advisory_xact_lock(hashtextextended(${owner}, 22))`);
  const row = await connection.maybeOne(sql.type(tokenRow)`
    INSERT INTO browser_token AS t
        (id, organization_id, end_user, key_id, mac, scopes, allowed_models, max_micro, expires_at)
      SELECT ${newId('browserToken')}, ${maker.organizationId}, ${endUser}, ${maker.keyId},
        decode(${calculateKeyMac(token, pepper)}, 'hex'), ${sql.array([...scopes], 'text')},
        ${allowedModels && sql.array([...allowedModels], 'text')}::text[], ${maxMicro}::bigint,
        least(k.expires_at, clock_timestamp() + ${expiresInSeconds} * interval '1 second')
      FROM api_key k WHERE k.id = ${maker.keyId} AND (SELECT count(*) FROM browser_token t WHERE ${isLive({ ...maker, endUser })}) < ${tokensMax}
    RETURNING ${columns}`);
  if (!row)
    throw new GatewayError(
      'KEY_QUOTA_REACHED',
      `The end user already has ${tokensMax} valid tokens. Wait until one expires, or revoke them.`,
    );
  return { ...show(row), token };
}

interface TokenOwner {
  organizationId: string;
  endUser: string;
}

/** Builds the condition that selects the valid tokens `t` of an end user. */
const isLive = ({ organizationId, endUser }: TokenOwner) => sql.fragment`
  t.organization_id = ${organizationId} AND t.end_user = ${endUser} AND t.revoked_at IS NULL
  AND t.expires_at > clock_timestamp() AND EXISTS (SELECT FROM api_key maker WHERE maker.id = t.key_id
    AND maker.revoked_at IS NULL AND coalesce(maker.expires_at > clock_timestamp(), true))`;

/** Creates the functions that list, revoke and delete tokens. */
export function createBrowserTokens(pool: DatabasePool) {
  return {
    /** Lists the valid tokens of an end user, newest first. */
    async list(owner: TokenOwner): Promise<BrowserToken[]> {
      const rows = await pool.any(sql.type(tokenRow)`SELECT ${columns} FROM browser_token t
        WHERE ${isLive(owner)} ORDER BY t.id DESC`);
      return rows.map(show);
    },
    /**
     * Revokes all tokens of an end user. Returns how many were valid. Locks the account before the tokens, as the
     * ledger does, so that they cannot deadlock.
     */
    async revokeAll(owner: TokenOwner): Promise<number> {
      const { rowCount } = await pool.query(command`
        UPDATE browser_token t SET revoked_at = clock_timestamp()
        FROM (SELECT FROM account WHERE organization_id = ${owner.organizationId} FOR NO KEY UPDATE) AS locked
        WHERE ${isLive(owner)}`);
      return rowCount;
    },
  };
}
