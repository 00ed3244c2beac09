/**
 * Sessions of the console. A cookie contains a random token, and the database row of the token
 * refers to the API key whose permissions the session has. A session ends at sign-out, when its key
 * expires or is revoked, or after twelve hours.
 */
import { hash, randomBytes } from 'node:crypto';
import type Koa from 'koa';
import { sql, type FragmentSqlToken } from 'slonik';
import { z } from 'zod';
import { GatewayError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import { command, type DatabasePool } from '../platform/database.ts';

type Context = Pick<Koa.Context, 'cookies' | 'get' | 'ip' | 'method'>;

/** Maximum number of sessions of a key. A new session ends the oldest one beyond it. */
const sessionsMax = 20;
const lifetimeMs = 12 * 3_600_000;
/** Maximum number of stored characters of the header `User-Agent`. */
const userAgentMax = 300;
const safeMethods = ['GET', 'HEAD'];

const sessionRow = z.object({
  sessionId: z.string(),
  /** MAC of the session's key, in hex. */
  mac: z.string(),
  /** Name of the operator; entered at sign-in with ADMIN_API_KEY. Null for an API key's session. */
  name: z.string().nullable(),
  expiresAtMs: z.number(),
});
export type Session = z.infer<typeof sessionRow>;

const keySession = z.object({
  sessionId: z.string(),
  keyId: z.string(),
  userAgent: z.string().nullable(),
  address: z.string().nullable(),
  createdAtMs: z.number(),
  expiresAtMs: z.number(),
});
export type KeySession = z.infer<typeof keySession>;

/** Key of a session: an API key's id, or the MAC (hex) of an operator's key with their name. */
type SessionOwner = { keyId: string } | { operatorMac: string; name: string };

interface SessionsOptions {
  pool: DatabasePool;
  cookie: string;
  path: string;
  /** Base URL of the API. Only pages of its origin may change data with a session. */
  publicBaseUrl: string;
}

/** Returns whether a page of the console sent the request, by its `Origin` header. */
function isFromConsole(ctx: Context, publicUrl: URL): boolean {
  const origin = ctx.get('origin');
  return origin === publicUrl.origin || origin === `${publicUrl.protocol}//${ctx.get('host')}`;
}

/** Returns the browser and the address that the row of a new session keeps. */
const describeClient = (ctx: Context): FragmentSqlToken =>
  sql.fragment`${ctx.get('user-agent').slice(0, userAgentMax)}, ${ctx.ip.replace(/^::ffff:/, '')}`;

/** Creates the functions that manage the sessions of one cookie. */
export function createSessions({ pool, cookie, path, publicBaseUrl }: SessionsOptions) {
  const publicUrl = new URL(publicBaseUrl);
  const isSecure = publicUrl.protocol === 'https:';
  const options = { httpOnly: true, sameSite: 'strict', path, secure: isSecure } as const;

  const hashToken = (ctx: Context): FragmentSqlToken =>
    sql.fragment`decode(${hash('sha256', ctx.cookies.get(cookie) ?? '')}, 'hex')`;

  function setCookie(ctx: Context, token: string | null): void {
    // The library cannot detect TLS itself, because a proxy in front of this process terminates it.
    ctx.cookies.secure = isSecure;
    ctx.cookies.set(cookie, token, token === null ? options : { ...options, maxAge: lifetimeMs });
  }

  /** Returns the session of a request. Undefined if there is none or it has ended. */
  async function find(ctx: Context): Promise<Session | undefined> {
    if (ctx.cookies.get(cookie) === undefined) return undefined;
    const session = await pool.maybeOne(sql.type(sessionRow)`
      SELECT s.id AS "sessionId", encode(coalesce(k.mac, s.operator_mac), 'hex') AS mac, s.name,
        s.expires_at AS "expiresAtMs"
      FROM console_session s LEFT JOIN api_key k ON k.id = s.key_id
      WHERE s.token_hash = ${hashToken(ctx)} AND s.expires_at > clock_timestamp()`);
    return session ?? undefined;
  }

  return {
    find,
    /** Begins a session and sets its cookie. Ends the previous session of the request. */
    async begin(ctx: Context, owner: SessionOwner): Promise<{ expiresAtMs: number }> {
      const token = randomBytes(32).toString('base64url');
      const expiresAtMs = Date.now() + lifetimeMs;
      const keyId = 'keyId' in owner ? owner.keyId : null;
      const { operatorMac, name } = 'keyId' in owner ? { operatorMac: null, name: null } : owner;
      await pool.query(command`
        WITH ended AS (
          DELETE FROM console_session
          WHERE expires_at < clock_timestamp() OR token_hash = ${hashToken(ctx)}
            OR id IN (SELECT id FROM console_session
              WHERE key_id = ${keyId} OR operator_mac = decode(${operatorMac}, 'hex')
              ORDER BY id DESC OFFSET ${sessionsMax - 1}))
        INSERT INTO console_session
          (id, token_hash, key_id, operator_mac, name, user_agent, address, expires_at)
        VALUES (${newId('session')}, decode(${hash('sha256', token)}, 'hex'), ${keyId},
          decode(${operatorMac}, 'hex'), ${name}, ${describeClient(ctx)}, to_timestamp(${expiresAtMs / 1000}))`);
      setCookie(ctx, token);
      return { expiresAtMs };
    },
    /** Ends the session of a request, and clears its cookie. */
    async end(ctx: Context): Promise<void> {
      await pool.query(command`
        DELETE FROM console_session WHERE token_hash = ${hashToken(ctx)}`);
      setCookie(ctx, null);
    },
    /**
     * Returns the session of a request. Undefined if there is none or it has ended.
     * @throws GatewayError FORBIDDEN if the method is not GET or HEAD, and no page of the console
     * sent the request
     */
    async admit(ctx: Context): Promise<Session | undefined> {
      const session = await find(ctx);
      if (session && !safeMethods.includes(ctx.method) && !isFromConsole(ctx, publicUrl)) {
        throw new GatewayError(
          'FORBIDDEN',
          'Only pages of the console may change data with a session. Use an API key instead.',
        );
      }
      return session;
    },
  };
}

export type Sessions = ReturnType<typeof createSessions>;

/** Creates the functions that list and end the sessions of API keys. */
export function createKeySessions(pool: DatabasePool) {
  return {
    /** Lists the sessions of a user's keys, newest first. */
    list: (userId: string): Promise<readonly KeySession[]> =>
      pool.any(sql.type(keySession)`
        SELECT s.id AS "sessionId", s.key_id AS "keyId", s.user_agent AS "userAgent", s.address,
          s.created_at AS "createdAtMs", s.expires_at AS "expiresAtMs"
        FROM console_session s JOIN api_key k ON k.id = s.key_id
        WHERE k.user_id = ${userId} AND k.revoked_at IS NULL
          AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
          AND s.expires_at > clock_timestamp() ORDER BY s.id DESC`),
    /** Ends a session of a user's key. @throws GatewayError NOT_FOUND */
    async endById(sessionId: string, userId: string): Promise<void> {
      const { rowCount } = await pool.query(command`
        DELETE FROM console_session s USING api_key k
        WHERE s.id = ${sessionId} AND k.id = s.key_id AND k.user_id = ${userId}`);
      if (rowCount === 0) throw new GatewayError('NOT_FOUND', 'No such session.');
    },
  };
}
