/** Compares a value with a secret in constant time. */
import { createHash, timingSafeEqual } from 'node:crypto';

/**
 * Returns whether a value equals the secret. Compares hashes, so that the time does not depend on
 * the length of the value.
 */
export function isSecret(value: unknown, secret: string): boolean {
  return timingSafeEqual(digest(typeof value === 'string' ? value : ''), digest(secret));
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
