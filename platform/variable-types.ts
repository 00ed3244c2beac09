/**
 * Schemas of environment variables. The message for an invalid value contains the allowed values
 * and the received value. Messages about secrets do not contain the value.
 */
import { z } from 'zod';
import { formatAllowedValues, formatReceived } from '../domain/field-messages.ts';
import { parseDatabaseUrl } from './database-url.ts';

/** Invalid configuration. The message is one line that names the variable. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** Creates the error for a variable with an unusable path, from the error of the file system. */
export function pathError(variable: string, cause: unknown): ConfigError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new ConfigError(`configuration: ${variable} is wrong: ${reason}`, { cause });
}

/** Builds a schema's error option, whose message contains the allowed and the received values. */
const mustBe = (allowed: string) => ({
  error: ({ input }: { input?: unknown }) => `must be ${allowed}${formatReceived(input)}`,
});

/** Creates the schema of a variable that has one of these values. */
export const oneOf = <const Values extends readonly [string, ...string[]]>(values: Values) =>
  z.enum(values, { error: ({ input }) => formatAllowedValues(values, input) });

/** Schema of a variable that is `true` or `false`. */
export const flag = oneOf(['true', 'false']).transform((value) => value === 'true');

/**
 * Creates the schema of a number from `min` to `max` whose text matches `pattern`. The schema also
 * accepts a number, because providers parse their part of the parsed configuration again.
 */
function numberFrom(kind: string, pattern: RegExp, [min, max]: [number, number]) {
  const isAllowed = (text: string): boolean =>
    pattern.test(text) && Number(text) >= min && Number(text) <= max;
  return z.coerce
    .string()
    .trim()
    .refine(isAllowed, mustBe(`${kind} from ${min} to ${max}`))
    .transform(Number);
}

/** Creates the schema of an integer from `min` to `max`. */
export const count = (min: number, max: number) => numberFrom('an integer', /^\d+$/, [min, max]);

/** Creates the schema of a number from `min` to `max`. */
export const decimal = (min: number, max: number) =>
  numberFrom('a number', /^\d+(\.\d+)?$/, [min, max]);

/** TCP port; 0 means any free port. */
export const port = count(0, 65_535);

/** Creates the schema of a string that matches `pattern`, which `allowed` describes. */
export const matching = (pattern: RegExp, allowed: string) =>
  z.string().regex(pattern, mustBe(allowed));

function isWebUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, search, hash } = new URL(text);
  return /^https?:$/.test(protocol) && username + password + search + hash === '';
}

/** http or https URL to which paths are appended. */
export const webUrl = z
  .string()
  .trim()
  .refine(isWebUrl, mustBe('an http(s) URL without credentials, query or fragment'));

/** URL of a proxy. The message contains no part of the value, which may have credentials. */
export const proxyUrl = z
  .string()
  .refine(
    (text) => URL.canParse(text) && /^http:\/\/[^/]+\/?$/.test(text),
    'must be http://host:port or http://user:password@host:port',
  );

/** URL of a Postgres database. The message contains no part of the value, which is a credential. */
export const databaseUrl = z
  .string()
  .trim()
  .superRefine((url, context) => {
    try {
      parseDatabaseUrl(url);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      context.addIssue({ code: 'custom', message });
    }
  });

const splitList = (text: string): string[] =>
  text
    .split(',')
    .map((item) => item.trim())
    .filter(Boolean);

/**
 * Creates the schema of origins (scheme, host and port), separated by commas. Each value in
 * `wildcards` is allowed in place of an origin.
 */
function origins(wildcards: readonly string[]) {
  const isOrigin = (text: string): boolean => wildcards.includes(text) || isWebUrl(text);
  const allowed = ['origins such as https://studio.example, separated by commas', ...wildcards];
  return z
    .string()
    .refine((text) => splitList(text).every(isOrigin), mustBe(allowed.join(', or ')))
    .transform((text) =>
      splitList(text).map((item) => (wildcards.includes(item) ? item : new URL(item).origin)),
    );
}

/** Origins separated by commas; none by default. */
export const originList = origins([]).default([]);

/** Origins separated by commas, or `*` for all origins, which is the default. */
export const openOriginList = origins(['*']).default(['*']);

/** Pattern of placeholders from example files and templates. They are not valid as secrets. */
const placeholderPattern =
  /change.?me|secret|password|example|sample|placeholder|your[-_ ]|openssl|[<>${}\s]/i;

/**
 * Secret that HTTP headers carry. Quotes around the value are removed, because programs that read
 * env files differ in whether they remove them. Other variables lose only white space at their ends.
 */
export const headerSecret = z
  .string()
  .trim()
  .transform((value) => value.replace(/^(["'])(.*)\1$/s, '$2').trim())
  .pipe(
    z
      .string()
      .regex(/^[\x21-\x7e]+$/, 'must contain only letters, digits and punctuation of ASCII'),
  );

/** Secret of this gateway. It must be random and have at least 32 characters. */
export const secret = headerSecret
  .pipe(z.string().min(32, 'must have at least 32 characters'))
  .refine((value) => !placeholderPattern.test(value), 'must not be a placeholder from an example')
  .refine((value) => new Set(value).size >= 10, 'must be random');

/** API key of a provider. */
export const providerKey = headerSecret.pipe(z.string().min(8, 'must have at least 8 characters'));

/** List of at most 50 delays in milliseconds, separated by commas; each is at most one day. */
export const delayList = z
  .string()
  .refine((text) => {
    const delays = text.split(',');
    return (
      delays.length <= 50 && delays.every((delay) => count(0, 86_400_000).safeParse(delay).success)
    );
  }, mustBe('at most 50 integers from 0 to 86400000, separated by commas'))
  .transform((text) => text.split(',').map(Number));

/**
 * Pairs in the format `name=value,name=value`, percent-encoded as OpenTelemetry specifies for its
 * variables. The error message does not contain the value, because headers contain credentials.
 */
export const pairList = z
  .string()
  .default('')
  .transform((text, context): Record<string, string> => {
    try {
      if (/^([^=,\s]+=[^,]*(,|$))*$/.test(text)) {
        const pairs = splitList(text).map(parsePair);
        // Other characters cannot be sent in a header.
        if (pairs.every(([, value]) => /^[\x20-\x7e]*$/.test(value)))
          return Object.fromEntries(pairs);
      }
    } catch {
      // An invalid percent-encoding is reported below.
    }
    context.addIssue({
      code: 'custom',
      message: 'must be name=value,… with percent-encoded values',
    });
    return z.NEVER;
  });

function parsePair(pair: string): [string, string] {
  const equalsIndex = pair.indexOf('=');
  return [pair.slice(0, equalsIndex), decodeURIComponent(pair.slice(equalsIndex + 1))];
}
