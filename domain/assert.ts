/** A broken promise between our own parts: always a programmer's error, always a 500. */
class AssertionError extends Error {
  override readonly name = 'AssertionError';
}

/**
 * States what must be true here.
 * @throws AssertionError when it is not.
 */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}
