/** Comparison with a secret in constant time. */
import { createHash, timingSafeEqual } from 'node:crypto';

/**
 * Returns whether a value is the secret. Both are hashed before the comparison, so that the time
 * does not depend on the length.
 */
export function isSecret(given: unknown, secret: string): boolean {
  return timingSafeEqual(digest(typeof given === 'string' ? given : ''), digest(secret));
}

function digest(word: string): Buffer {
  return createHash('sha256').update(word).digest();
}
