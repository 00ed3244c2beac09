/** Ids: a prefix that names the kind, and a time-ordered UUIDv7. Opaque to callers. */
import { randomUUIDv7 } from 'node:crypto';

const prefixes = {
  job: 'job',
  chat: 'chat',
  organization: 'org',
  member: 'usr',
  key: 'key',
  request: 'req',
  upload: 'file',
  notice: 'ntc',
  operator: 'opr',
  session: 'ses',
} as const;

/** Kind of record that has an id. */
export type IdKind = keyof typeof prefixes;

/** Makes a new id, e.g. `job_0198f0…`; later ids sort after earlier ones. */
export function newId(kind: IdKind): string {
  return `${prefixes[kind]}_${randomUUIDv7().replaceAll('-', '')}`;
}

/** Makes the smallest id of a kind at a time in Unix ms; later ids sort after it. */
export function firstIdAt(kind: IdKind, timeMs: number): string {
  return `${prefixes[kind]}_${timeMs.toString(16).padStart(12, '0')}`;
}

/** Makes the pattern of the ids of a kind. */
export function idForm(kind: IdKind): RegExp {
  return new RegExp(`^${prefixes[kind]}_[0-9a-f]{32}$`);
}

/** Checks whether a text has the form of an id of a kind; the id may be unknown. */
export function isId(kind: IdKind, text: string): boolean {
  return idForm(kind).test(text);
}
