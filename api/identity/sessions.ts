/**
 * Sessions of the console: a signed cookie that stands for a key and does not hold it. What it names is
 * looked up on each request as the key itself would be, so a session ends with its key.
 */
import type Koa from 'koa';
import { GatewayError } from '../../domain/errors.ts';

type Context = Pick<Koa.Context, 'cookies' | 'get' | 'method'>;

const lifetimeMs = 12 * 3_600_000;
/** Methods that change nothing. */
const safeMethods = ['GET', 'HEAD'];

/** What a cookie says. */
export interface Session {
  /** The MAC of the key, as hex (key-format.ts). */
  mac: string;
  /** Who has begun it, where the key does not tell. */
  name: string | null;
  expiresAtMs: number;
}

interface SessionsOptions {
  /** Name of the cookie. */
  cookie: string;
  /** The paths it is sent to. */
  path: string;
  /** Where callers reach the API. */
  publicBaseUrl: string;
}

/** Sessions of one kind of key, in cookies that the application signs (`app.keys`). */
export function createSessions({ cookie, path, publicBaseUrl }: SessionsOptions) {
  const { origin: publicOrigin, protocol } = new URL(publicBaseUrl);
  const secure = protocol === 'https:';
  const options = { signed: true, httpOnly: true, sameSite: 'strict', path, secure } as const;

  function of(ctx: Context): Session | undefined {
    const parts = ctx.cookies.get(cookie, { signed: true })?.split('.') ?? [];
    const [mac = '', expiresAtMs, name = ''] = parts;
    const session = { mac, expiresAtMs: Number(expiresAtMs), name: textOf(name) || null };
    return session.expiresAtMs > Date.now() ? session : undefined;
  }
  return {
    /** The session of a request; undefined where there is none. */
    of,
    /** Sets the cookie of a new session. */
    begin(ctx: Context, { mac, name }: Pick<Session, 'mac' | 'name'>): Session {
      const session = { mac, name, expiresAtMs: Date.now() + lifetimeMs };
      const parts = [mac, session.expiresAtMs, Buffer.from(name ?? '').toString('base64url')];
      // TLS ends before this process.
      ctx.cookies.secure = secure;
      ctx.cookies.set(cookie, parts.join('.'), { ...options, maxAge: lifetimeMs });
      return session;
    },
    /** Clears the cookie. */
    end(ctx: Context): void {
      ctx.cookies.secure = secure;
      ctx.cookies.set(cookie, null, options);
    },
    /**
     * The session that a request is made with.
     * @throws GatewayError FORBIDDEN when it changes something and does not come from the console's own pages
     */
    admit(ctx: Context): Session | undefined {
      const session = of(ctx);
      if (session && !safeMethods.includes(ctx.method) && !isOwnPage(ctx, publicOrigin)) {
        throw new GatewayError('FORBIDDEN', 'A session is for the pages of the console only.');
      }
      return session;
    },
  };
}

/** Beside `SameSite=Strict`, which older browsers do not know and sibling domains pass. */
function isOwnPage(ctx: Context, publicOrigin: string): boolean {
  const origin = ctx.get('origin');
  return (
    origin === publicOrigin || (URL.canParse(origin) && new URL(origin).host === ctx.get('host'))
  );
}

const textOf = (base64url: string): string => Buffer.from(base64url, 'base64url').toString();
