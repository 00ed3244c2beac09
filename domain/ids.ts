/** Ids of the gateway's objects, and the comparison of secrets. */
import { randomUUIDv7, createHash, timingSafeEqual } from 'node:crypto';

const prefixes = {
  job: 'job',
  bulk: 'bulk',
  bulkEvent: 'evt',
  actionRun: 'act',
  chat: 'chat',
  organization: 'org',
  user: 'usr',
  key: 'key',
  browserToken: 'tok',
  request: 'req',
  rejectedRequest: 'rej',
  upload: 'file',
  notice: 'ntc',
  webhookEndpoint: 'whe',
  shareLink: 'shr',
  operator: 'opr',
  session: 'ses',
  priceRow: 'price',
} as const;

/** Kind of record that has an id. */
export type IdKind = keyof typeof prefixes;

/** Creates an id such as `job_0198f0…`. Ids sort by the time of their creation. */
export function newId(kind: IdKind): string {
  return `${prefixes[kind]}_${randomUUIDv7().replaceAll('-', '')}`;
}

/** Returns a lower bound for the ids of this kind created at or after `timeMs` (Unix ms). */
export function firstIdAt(kind: IdKind, timeMs: number): string {
  return `${prefixes[kind]}_${timeMs.toString(16).padStart(12, '0')}`;
}

/** Returns the time at which an id was created, in Unix ms. */
export const timeOfId = (id: string): number =>
  parseInt(id.replace(/^[a-z]+_/, '').slice(0, 12), 16);

/** Returns the pattern that all ids of this kind match. */
export function idPattern(kind: IdKind): RegExp {
  return new RegExp(`^${prefixes[kind]}_[0-9a-f]{32}$`);
}

/** Returns whether a string has the format of an id of this kind, even if no record has this id. */
export function isId(kind: IdKind, text: string): boolean {
  return idPattern(kind).test(text);
}

/** Returns whether a value equals the secret. Compares hashes, so that timing reveals no length. */
export function isSecret(value: unknown, secret: string): boolean {
  return timingSafeEqual(digest(typeof value === 'string' ? value : ''), digest(secret));
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
