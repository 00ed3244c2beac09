/**
 * Rules of requests with a browser token, at the places that every request passes: which endpoints it may
 * use, that it acts for its end user, that ids are those of its end user, and that responses do not show the
 * account (docs/decisions/0022-browser-tokens.md).
 */
import { createHash } from 'node:crypto';
import { fieldError, GatewayError } from '../../domain/errors.ts';
import { isRecord } from '../../domain/json.ts';
import type { Caller } from '../../identity/access.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { isJobSeen, isUploadSeen } from '../../storage/file-readers.ts';
import type { Context, Middleware } from '../context.ts';

/** Caller of a request, as far as these rules need it. */
type TokenCaller = Pick<Caller, 'organizationId' | 'token'>;

/** @throws GatewayError FORBIDDEN if the request has a browser token, and its endpoint is not for tokens */
export function throwIfNotForTokens({ token }: TokenCaller, allowsTokens: boolean): void {
  if (token && !allowsTokens)
    throw new GatewayError('FORBIDDEN', 'A browser token may not use this endpoint.');
}

/** Rejects fields that only an API key may send. @throws GatewayError FORBIDDEN with the field */
export function throwIfSent(
  { token }: TokenCaller,
  fields: Readonly<Record<string, unknown>>,
  names: readonly string[],
): void {
  const sent = token && names.find((name) => fields[name] !== undefined);
  if (sent) throw fieldError('FORBIDDEN', sent, 'must not be sent with a browser token');
}

/**
 * Returns the end user of a request: that of its browser token, otherwise the named one.
 * @throws GatewayError FORBIDDEN if the request names another end user than its token
 */
export function findEndUser<Named extends string | null | undefined>(
  { token }: Pick<TokenCaller, 'token'>,
  field: string,
  named: Named,
): Named | string {
  if (!token) return named;
  if (named != null && named !== token.endUser)
    throw fieldError(
      'FORBIDDEN',
      field,
      'must be the end user of the browser token, or be omitted',
    );
  return token.endUser;
}

/** Returns the name under which an Idempotency-Key is stored: end users share none with others. No key of a caller contains a blank. */
export function scopeIdempotencyKey({ token }: Pick<TokenCaller, 'token'>, key: string): string {
  if (!token) return key;
  return `${createHash('sha256').update(token.endUser).digest('hex')} ${key}`;
}

/** Returns whether the ids in a path are those of jobs and files that the caller may see. */
export async function mayReadIds(
  caller: TokenCaller,
  { jobId, fileId }: Record<string, unknown>,
  { pool }: { pool: DatabasePool },
): Promise<boolean> {
  if (!caller.token) return true;
  if (typeof jobId === 'string' && !(await isJobSeen(pool, caller, jobId))) return false;
  return typeof fileId !== 'string' || isUploadSeen(pool, caller, fileId);
}

/** Removes what a response with a browser token would show of the account: its balance. */
export const hideAccount: Middleware = async (ctx: Context, next) => {
  await next();
  if (!ctx.state.caller.token) return;
  ctx.remove('X-Credits-Remaining');
  const { body } = ctx;
  if (isRecord(body) && isRecord(body['credits']))
    ctx.body = { ...body, credits: { ...body['credits'], remaining: null } };
};

/**
 * Returns the error that a caller sees. A browser token sees of a rejection because of the account, its limits or
 * rates only the code. The limit of the end user stays. `caller` is undefined before it is known.
 */
export function hideNumbers(
  caller: Pick<TokenCaller, 'token'> | undefined,
  error: GatewayError,
): GatewayError {
  if (!caller?.token || error.code === 'END_USER_LIMIT_EXCEEDED') return error;
  const isOfAccount = [402, 429].includes(error.status) || error.code === 'STORAGE_QUOTA_EXCEEDED';
  if (!isOfAccount) return error;
  const { code, retryAfterSeconds, cause } = error;
  return new GatewayError(code, undefined, { retryAfterSeconds, cause });
}
