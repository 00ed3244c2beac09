/** Types of JSON values, and the conversion of database rows to JSON responses. */
import { creditsFromMicro } from './credits.ts';

/** Value that JSON represents without loss. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

export type JsonObject = { [key: string]: Json };

/** Returns whether a value is an object and not an array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Casts a value to the JSON type. The value must contain only JSON values. */
export function asJson(value: object | null): Json {
  // oxlint-disable-next-line no-unsafe-type-assertion -- the only difference is that interfaces have no index signature
  return value as Json;
}

/** Returns whether Postgres can store all strings and field names of a JSON value. */
export function isStorable(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed() && !value.includes('\0');
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isStorable);
  return Object.entries(value).every(([name, field]) => isStorable(name) && isStorable(field));
}

/**
 * Returns the path of the first text or field name that Postgres cannot store; of the object that
 * contains it, for a name. Null if all can be stored.
 */
export function findUnstorable(value: unknown): string[] | null {
  if (isStorable(value)) return null;
  if (typeof value !== 'object' || value === null) return [];
  for (const [name, field] of Object.entries(value)) {
    if (!isStorable(name)) return [];
    const path = findUnstorable(field);
    if (path) return [name, ...path];
  }
  return [];
}

/** Returns a text without NUL characters, and with U+FFFD in place of lone surrogates. */
export const toStorableText = (text: string): string => text.toWellFormed().replaceAll('\0', '');

/**
 * Returns a JSON value whose texts and field names Postgres can store; the same value if it can
 * store all. A provider's text must not keep a job from being settled.
 */
export function toStorable(value: Json): Json {
  if (isStorable(value) || JSON.isRawJSON(value)) return value;
  if (typeof value === 'string') return toStorableText(value);
  if (Array.isArray(value)) return value.map(toStorable);
  const fields = Object.entries(value ?? {});
  return Object.fromEntries(
    fields.map(([name, field]) => [toStorableText(name), toStorable(field)]),
  );
}

/** Returns the keys of an object literal, typed as their names. */
export function keysOf<Name extends string>(
  record: Readonly<Record<Name, unknown>>,
): [Name, ...Name[]] {
  // oxlint-disable-next-line no-unsafe-type-assertion -- the type of `Object.keys` does not contain the names of the literal
  return Object.keys(record) as [Name, ...Name[]];
}

/** Converts Unix ms to ISO 8601; null stays null. */
export function isoTime(timeMs: number): string;
export function isoTime(timeMs: number | null): string | null;
export function isoTime(timeMs: number | null): string | null {
  return timeMs === null ? null : new Date(timeMs).toISOString();
}

/** Database row with the field names and units of responses. */
type Response<Row> = {
  [Name in keyof Row as ResponseName<Name>]: Name extends `${string}AtMs`
    ? string | Extract<Row[Name], null>
    : Row[Name];
};
/** Name of a row's field in responses: `seenAt` for `seenAtMs`, `charged` for `chargedMicro`. */
export type ResponseName<Name> = Name extends `${infer Noun}AtMs`
  ? `${Noun}At`
  : Name extends `${infer Noun}Micro`
    ? Noun
    : Name;

/**
 * Converts a database row to the field names and units of responses: a field `…AtMs` (Unix ms)
 * becomes `…At` in ISO 8601, and a field `…Micro` (micro-credits) becomes credits without the
 * suffix. Null stays null.
 */
export function toResponse<Row extends object>(row: Row): Response<Row> {
  const fields = Object.entries(row).map(([name, value]: [string, unknown]) => {
    const noun = responseName(name);
    if (typeof value !== 'number' || noun === name) return [noun, value];
    return [noun, name.endsWith('Micro') ? creditsFromMicro(value) : isoTime(value)];
  });
  // oxlint-disable-next-line no-unsafe-type-assertion -- the type of `fromEntries` does not contain the names of the entries
  return Object.fromEntries(fields) as Response<Row>;
}

/** Returns the name that a row's field has in responses. It has no suffix `Ms` or `Micro`. */
export function responseName(name: string): string {
  return name.replace(/(?<=At)Ms$|Micro$/, '');
}

/** Returns an object unchanged. Returns an empty object for any other value. */
export function asRecord(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {};
}

/** Returns a string unchanged. Returns an empty string for any other value. */
export function asText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Renders a value as JSON whose fields are sorted by name, because JSON objects have no order. */
export const stringifySorted = (sent: unknown): string =>
  JSON.stringify(sent, (_, value: unknown) =>
    isRecord(value)
      ? Object.fromEntries(
          Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1)),
        )
      : value,
  );
