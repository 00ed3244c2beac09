/**
 * Reads the URL of a Postgres database with the driver's parser. Every connection is opened with
 * the result, so that a URL means the same to the pool, the migrations and the listener.
 */
import type { ConnectionOptions } from 'node:tls';
import { parse, toClientConfig } from 'pg-connection-string';

/** Address and credentials of a database, as the driver's clients take them. */
export interface DatabaseAddress {
  host: string;
  port: number;
  user: string | undefined;
  /** The driver reads PGPASSWORD if the URL contains no password. */
  password: string | undefined;
  database: string | undefined;
  ssl: ConnectionOptions | false;
  application_name: string | undefined;
  options: string;
}

const format = 'must be postgres://user:password@host:port/database';
const sslModes = ['disable', 'no-verify', 'prefer', 'require', 'verify-ca', 'verify-full'];
const certificateFiles = ['sslrootcert', 'sslcert', 'sslkey'];

/** Returns the reason for which a URL cannot be used, without any part of the URL. */
function findFault(text: string): string | null {
  if (!/^postgres(ql)?:\/\//.test(text)) return format;
  const [, authority = '', rest = ''] = /^[a-z]+:\/\/([^/?#]*)(.*)$/s.exec(text) ?? [];
  // Such a URL can be read in two ways, and the wrong one shows a part of the password as a host.
  if (/[@#]/.test(rest) || /\s/.test(text)) {
    return `${format}; in user and password write # as %23, / as %2F, ? as %3F, space as %20`;
  }
  if (/%(?![\da-f]{2})/i.test(text)) return `${format}; in user and password write % as %25`;
  const hosts = authority.slice(authority.lastIndexOf('@') + 1);
  if (hosts.includes(',')) return `${format}, with one host`;
  return null;
}

/**
 * Settings that every session relies on, whatever the defaults of the role and the database are:
 * the format of times, and the isolation under which a statement reads what others have committed.
 */
const sessionOptions = String.raw`-c DateStyle=ISO -c default_transaction_isolation=read\ committed`;

/** Reason for which a URL cannot be used. The message contains no part of the URL. */
class UrlFault extends Error {
  override readonly name = 'UrlFault';
}

/** Describes an error of the parser without any part of the URL. */
function describeParsing(error: unknown): string {
  if (error instanceof UrlFault) return error.message;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return /^E[A-Z]+$/.test(code) ? `names a certificate file that cannot be read (${code})` : format;
}

function parseParts(text: string) {
  const query = new URLSearchParams(/\?(.*)$/s.exec(text)?.[1]);
  const sslMode = query.get('sslmode');
  if (sslMode !== null && !sslModes.includes(sslMode)) {
    throw new UrlFault(`sslmode must be one of ${sslModes.join(', ')}`);
  }
  const missing = certificateFiles.find((name) => query.get(name) === '');
  if (missing !== undefined) throw new UrlFault(`${missing} must be a path`);
  // The driver checks the certificate in these modes as in `verify-full`, and prints a warning.
  const strict = text.replace(/([?&]sslmode=)(prefer|require|verify-ca)(?=&|$)/, '$1verify-full');
  return toClientConfig(parse(strict));
}

/**
 * Returns settings of TLS whose certificate files are read again for each connection, so that a
 * renewed certificate needs no restart. A file that cannot be read keeps its last content.
 */
function followFiles(text: string, ssl: ConnectionOptions): ConnectionOptions {
  const last = { ...ssl };
  function read(name: 'ca' | 'cert' | 'key'): unknown {
    try {
      Object.assign(last, parseParts(text).ssl);
    } catch {
      // With the last content, the connection succeeds or fails with the reason.
    }
    return last[name];
  }
  const settings = { ...ssl };
  for (const name of ['ca', 'cert', 'key'] as const) {
    if (ssl[name] === undefined) continue;
    const get = () => read(name);
    Object.defineProperty(settings, name, { get, enumerable: true, configurable: true });
  }
  return settings;
}

/**
 * Reads a URL of a database.
 * @throws UrlFault
 */
export function parseDatabaseUrl(url: string): DatabaseAddress {
  const text = url.trim();
  const fault = findFault(text);
  if (fault !== null) throw new UrlFault(fault);
  let parts: ReturnType<typeof parseParts>;
  try {
    parts = parseParts(text);
  } catch (error) {
    // The error of the URL parser contains the URL, so it is no cause.
    throw new UrlFault(describeParsing(error));
  }
  if (!parts.host) throw new UrlFault(`${format}; it contains no host`);
  return {
    host: parts.host,
    port: parts.port ?? 5432,
    user: parts.user || undefined,
    password: typeof parts.password === 'string' && parts.password ? parts.password : undefined,
    database: parts.database,
    ssl: parts.ssl === true ? {} : typeof parts.ssl === 'object' && followFiles(text, parts.ssl),
    application_name: parts.application_name,
    options: [sessionOptions, ...(parts.options ? [parts.options] : [])].join(' '),
  };
}

/**
 * Formats an address as a URL that slonik, which has a parser of its own, reads in the same way.
 * slonik takes the settings of TLS separately.
 */
export function formatSlonikUrl(address: DatabaseAddress): string {
  const { host, port, user, password, database, application_name, options } = address;
  const encode = encodeURIComponent;
  const credentials = `${encode(user ?? '')}${password === undefined ? '' : `:${encode(password)}`}`;
  const query = new URLSearchParams({
    ...(application_name !== undefined && { application_name }),
    options,
  });
  const path = `${credentials}@${encode(host)}:${port}/${encode(database ?? '')}`;
  return `postgres://${path.replace(/^@/, '')}?${query.toString()}`;
}

/**
 * Returns an error that says which setting PgBouncer needs, if a pooler rejected the parameters of a
 * connection; else null.
 */
export function explainPoolerRefusal(error: unknown): Error | null {
  const isRefused =
    error instanceof Error && error.message.includes('unsupported startup parameter');
  if (!isRefused) return null;
  return new Error(
    'DATABASE_URL: the pooler rejects the parameters of the connection; PgBouncer needs' +
      ' ignore_startup_parameters = statement_timeout, idle_in_transaction_session_timeout, options',
    { cause: error },
  );
}
