/** Words on the command line → values of a request. */
import { InvalidArgumentError } from 'commander';

const unitMs: Record<string, number> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Milliseconds of `90s`, `45m`, `12h` or `30d`. */
export function durationMs(text: string): number {
  const [, count, unit = ''] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const factor = unitMs[unit];
  if (count === undefined || factor === undefined) {
    throw new InvalidArgumentError('Say for example 90s, 45m, 12h or 30d.');
  }
  return Number(count) * factor;
}

/** A number. */
export function numeric(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) {
    throw new InvalidArgumentError('Not a number.');
  }
  return value;
}

/** `500/month` as a limit of a key. */
export function keyLimit(text: string): { credits: number; per: string } {
  const [, credits, per] = /^(\d+(?:\.\d+)?)\/(day|week|month|total)$/.exec(text) ?? [];
  if (per === undefined) {
    throw new InvalidArgumentError('Say for example 20/day, 100/week, 500/month or 1000/total.');
  }
  return { credits: Number(credits), per };
}

/** Gathers an option that may be given several times. */
export function several(text: string, before: string[] = []): string[] {
  return [...before, text];
}

/** Gathers `field=value` pairs; a value that is JSON is taken as JSON, anything else as text. */
export function assignment(
  text: string,
  before: Record<string, unknown> = {},
): Record<string, unknown> {
  const [, field, value = ''] = /^([A-Za-z_]\w*)=(.*)$/s.exec(text) ?? [];
  if (field === undefined) throw new InvalidArgumentError('Say field=value.');
  return { ...before, [field]: jsonOrText(value) };
}

/** Gathers `name=value` pairs of texts. */
export function tagged(text: string, before: Record<string, string> = {}): Record<string, string> {
  const [, name, value = ''] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
  if (name === undefined) throw new InvalidArgumentError('Say name=value.');
  return { ...before, [name]: value };
}

/** Pairs as a list is filtered by them. */
export function tagQuery(tags: Record<string, string> = {}): Record<string, string> {
  return Object.fromEntries(
    Object.entries(tags).map(([name, value]) => [`metadata[${name}]`, value]),
  );
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The fields that are there. */
export function given(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** UTC date and time to the second of an ISO 8601 time or of Unix ms. */
export function shortTime(time: string | number | null): string | null {
  return time === null ? null : new Date(time).toISOString().slice(0, 19).replace('T', ' ');
}
