/** Compares a value with a secret in constant time. */
import { createHash, timingSafeEqual } from 'node:crypto';

/** Returns whether a value equals the secret. Compares hashes, so that timing reveals no length. */
export function isSecret(value: unknown, secret: string): boolean {
  return timingSafeEqual(digest(typeof value === 'string' ? value : ''), digest(secret));
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
