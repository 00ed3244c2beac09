/** Rejected promises. */

/** Returns the error of this class with which a promise is rejected. @throws if it is not */
export async function catchFailure<Failure extends Error>(
  asked: PromiseLike<unknown>,
  type: abstract new (...args: never[]) => Failure,
): Promise<Failure> {
  try {
    await asked;
  } catch (error) {
    if (error instanceof type) return error;
    throw error;
  }
  throw new Error('it was not rejected');
}
