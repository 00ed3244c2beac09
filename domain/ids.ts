/** Ids: a prefix that names the kind, then a time-ordered UUIDv7 without dashes. Opaque to callers. */
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
} as const;

/** What an id can name. */
export type IdKind = keyof typeof prefixes;

/** A new id, e.g. `job_0198f0…`; later ids sort after earlier ones. */
export function newId(kind: IdKind): string {
  return `${prefixes[kind]}_${randomUUIDv7().replaceAll('-', '')}`;
}

/** No id of this kind that is made at this time, Unix ms, or later sorts before this. */
export function firstIdAt(kind: IdKind, timeMs: number): string {
  return `${prefixes[kind]}_${timeMs.toString(16).padStart(12, '0')}`;
}

/** The form of the ids of this kind. */
export function idForm(kind: IdKind): RegExp {
  return new RegExp(`^${prefixes[kind]}_[0-9a-f]{32}$`);
}

/** Tells whether a word has the form of an id of this kind; says nothing about its existence. */
export function isId(kind: IdKind, word: string): boolean {
  return idForm(kind).test(word);
}
