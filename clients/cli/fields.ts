/** Parsers of command-line values: durations, numbers, limits, pairs and JSON files. */
import { readFile } from 'node:fs/promises';
import { InvalidArgumentError } from 'commander';
import { CliError } from './api-client.ts';

const unitMs: Record<string, number> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Converts `90s`, `45m`, `12h` or `30d` to milliseconds. */
export function parseDurationMs(text: string): number {
  const [, count, unit = ''] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const factor = unitMs[unit];
  if (count === undefined || factor === undefined) {
    throw new InvalidArgumentError(
      'Must be a number with a unit, for example 90s, 45m, 12h or 30d.',
    );
  }
  return Number(count) * factor;
}

/** Parses a finite number. */
export function parseNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) {
    throw new InvalidArgumentError('Must be a number.');
  }
  return value;
}

/** Parses the limit of a key, for example `500/month`. */
export function parseKeyLimit(text: string): { credits: number; per: string } {
  const [, credits, per] = /^(\d+(?:\.\d+)?)\/(day|week|month|total)$/.exec(text) ?? [];
  if (per === undefined) {
    throw new InvalidArgumentError(
      'Must be credits per period, for example 20/day, 100/week, 500/month or 1000/total.',
    );
  }
  return { credits: Number(credits), per };
}

/** Creates a parser that also accepts `none`, which removes a limit; commander replaces null. */
export const orNone =
  <Value>(parse: (text: string) => Value) =>
  (text: string): Value | 'none' =>
    text === 'none' ? text : parse(text);

/** Collects the values of an option that may be repeated. */
export function collectValue(text: string, before: string[] = []): string[] {
  return [...before, text];
}

/** Collects `field=value` pairs. A value is parsed as JSON, or kept as text if it is not JSON. */
export function collectAssignment(
  text: string,
  before: Record<string, unknown> = {},
): Record<string, unknown> {
  const [, field, value = ''] = /^([A-Za-z_]\w*)=(.*)$/s.exec(text) ?? [];
  if (field === undefined) throw new InvalidArgumentError('Must be field=value, such as seed=7.');
  return { ...before, [field]: parseJsonOrText(value) };
}

/** Collects `name=value` pairs; every value is kept as text. */
export function collectPair(
  text: string,
  before: Record<string, string> = {},
): Record<string, string> {
  const [, name, value = ''] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
  if (name === undefined) throw new InvalidArgumentError('Must be name=value, such as team=red.');
  return { ...before, [name]: value };
}

/** Filter options whose query parameters have other names, e.g. `organizationId` for `org`. */
export interface FilterOptions {
  org?: string;
  key?: string;
  metadata?: Record<string, string>;
}

/** Converts filter options to query parameters. */
export function buildFilterQuery({ org, key, metadata = {}, ...query }: FilterOptions) {
  const pairs = Object.entries(metadata).map(([name, value]) => [`metadata[${name}]`, value]);
  return { ...query, organizationId: org, keyId: key, ...Object.fromEntries(pairs) };
}

function parseJsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Returns an object without its undefined fields. */
export function omitUndefined(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** Formats an ISO 8601 time or Unix ms as UTC date and time without milliseconds. */
export function formatTime(time: string | number | null): string | null {
  return time === null ? null : new Date(time).toISOString().slice(0, 19).replace('T', ' ');
}

/** Reads a file, or standard input for `-`, that contains a JSON object. @throws CliError */
export async function readObject(file: string): Promise<object> {
  try {
    const value: unknown = JSON.parse(await readFile(file === '-' ? '/dev/stdin' : file, 'utf8'));
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch (error) {
    throw new CliError(`${file} cannot be read as JSON: ${String(error)}`);
  }
  throw new CliError(`${file} must contain a JSON object`);
}
