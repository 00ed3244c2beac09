/** Comparison with a secret that takes the same time whatever is given. */
import { createHash, timingSafeEqual } from 'node:crypto';

/** Whether what was given is the secret: hashed before they are compared, so that no length tells anything. */
export function isSecret(given: unknown, secret: string): boolean {
  return timingSafeEqual(digest(typeof given === 'string' ? given : ''), digest(secret));
}

function digest(word: string): Buffer {
  return createHash('sha256').update(word).digest();
}
