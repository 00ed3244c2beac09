/**
 * Sessions of the console: a cookie contains a random token, and a database row names the key whose
 * permissions the session has. A session ends at logout, when its key expires or is revoked, or
 * twelve hours after it began.
 */
import { hash, randomBytes } from 'node:crypto';
import type Koa from 'koa';
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { command, type DatabasePool } from '../../platform/database.ts';

type Context = Pick<Koa.Context, 'cookies' | 'get' | 'method'>;

const lifetimeMs = 12 * 3_600_000;
const safeMethods = ['GET', 'HEAD'];

const sessionRow = z.object({
  sessionId: z.string(),
  /** MAC of the key, in hex (key-format.ts). */
  mac: z.string(),
  /** Name of the operator, if the session is of the ADMIN_API_KEY, which has no name. */
  name: z.string().nullable(),
  expiresAtMs: z.number(),
});
export type Session = z.infer<typeof sessionRow>;

const keySession = z.object({
  sessionId: z.string(),
  keyId: z.string(),
  createdAtMs: z.number(),
  expiresAtMs: z.number(),
});
export type KeySession = z.infer<typeof keySession>;

/** Owner of a session: an API key, or an operator's key by its MAC (hex) and name. */
type SessionOwner = { keyId: string } | { operatorMac: string; name: string };

interface SessionsOptions {
  pool: DatabasePool;
  cookie: string;
  path: string;
  /** Base URL of the API; only pages of its origin may send changing requests with a session. */
  publicBaseUrl: string;
}

/** Makes the sessions of one cookie. */
export function createSessions({ pool, cookie, path, publicBaseUrl }: SessionsOptions) {
  const publicUrl = new URL(publicBaseUrl);
  const secure = publicUrl.protocol === 'https:';
  const options = { httpOnly: true, sameSite: 'strict', path, secure } as const;

  const tokenHashOf = (ctx: Context): FragmentSqlToken =>
    sql.fragment`decode(${hash('sha256', ctx.cookies.get(cookie) ?? '')}, 'hex')`;

  function setCookie(ctx: Context, token: string | null): void {
    // A proxy in front of this process terminates TLS, so the library cannot see that the
    // connection is secure.
    ctx.cookies.secure = secure;
    ctx.cookies.set(cookie, token, token === null ? options : { ...options, maxAge: lifetimeMs });
  }

  /** Finds the session of a request; undefined if there is none or it has ended. */
  async function find(ctx: Context): Promise<Session | undefined> {
    if (ctx.cookies.get(cookie) === undefined) return undefined;
    const session = await pool.maybeOne(sql.type(sessionRow)`
      SELECT s.id AS "sessionId", encode(coalesce(k.mac, s.operator_mac), 'hex') AS mac, s.name,
        s.expires_at AS "expiresAtMs"
      FROM console_session s LEFT JOIN api_key k ON k.id = s.key_id
      WHERE s.token_hash = ${tokenHashOf(ctx)} AND s.expires_at > clock_timestamp()`);
    return session ?? undefined;
  }

  /** Returns whether the `Origin` header (scheme, host and port) is the origin of the console. */
  function isOwnPage(ctx: Context): boolean {
    const origin = ctx.get('origin');
    return origin === publicUrl.origin || origin === `${publicUrl.protocol}//${ctx.get('host')}`;
  }

  return {
    find,
    /** Begins a session, sets its cookie, and ends the session that the request had. */
    async begin(ctx: Context, owner: SessionOwner): Promise<{ expiresAtMs: number }> {
      const token = randomBytes(32).toString('base64url');
      const expiresAtMs = Date.now() + lifetimeMs;
      const keyId = 'keyId' in owner ? owner.keyId : null;
      const { operatorMac, name } = 'keyId' in owner ? { operatorMac: null, name: null } : owner;
      await pool.query(command`
        WITH ended AS (
          DELETE FROM console_session
          WHERE expires_at < clock_timestamp() OR token_hash = ${tokenHashOf(ctx)})
        INSERT INTO console_session (id, token_hash, key_id, operator_mac, name, expires_at)
        VALUES (${newId('session')}, decode(${hash('sha256', token)}, 'hex'), ${keyId},
          decode(${operatorMac}, 'hex'), ${name}, to_timestamp(${expiresAtMs / 1000}))`);
      setCookie(ctx, token);
      return { expiresAtMs };
    },
    /** Ends the session of a request, and clears its cookie. */
    async end(ctx: Context): Promise<void> {
      await pool.query(command`
        DELETE FROM console_session WHERE token_hash = ${tokenHashOf(ctx)}`);
      setCookie(ctx, null);
    },
    /**
     * Finds the session of a request; undefined if there is none.
     * @throws GatewayError FORBIDDEN if the method is not GET or HEAD, and the request is not from
     * a page of the console
     */
    async admit(ctx: Context): Promise<Session | undefined> {
      const session = await find(ctx);
      if (session && !safeMethods.includes(ctx.method) && !isOwnPage(ctx)) {
        throw new GatewayError('FORBIDDEN', 'Only pages of the console may use a session.');
      }
      return session;
    },
  };
}

export type Sessions = ReturnType<typeof createSessions>;

/** Makes the functions that list and end the sessions of API keys. */
export function createKeySessions(pool: DatabasePool) {
  return {
    /** Lists the sessions of a user's keys, newest first. */
    list: (memberId: string): Promise<readonly KeySession[]> =>
      pool.any(sql.type(keySession)`
        SELECT s.id AS "sessionId", s.key_id AS "keyId", s.created_at AS "createdAtMs",
          s.expires_at AS "expiresAtMs"
        FROM console_session s JOIN api_key k ON k.id = s.key_id
        WHERE k.member_id = ${memberId} AND k.revoked_at IS NULL
          AND s.expires_at > clock_timestamp() ORDER BY s.id DESC LIMIT 100`),
    /** Ends a session of a user's key. @throws GatewayError NOT_FOUND */
    async endById(sessionId: string, memberId: string): Promise<void> {
      const { rowCount } = await pool.query(command`
        DELETE FROM console_session s USING api_key k
        WHERE s.id = ${sessionId} AND k.id = s.key_id AND k.member_id = ${memberId}`);
      if (rowCount === 0) throw new GatewayError('NOT_FOUND', 'Unknown session.');
    },
  };
}
