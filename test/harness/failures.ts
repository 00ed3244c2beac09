/** Errors that a test expects. */
import { GatewayError } from '../../domain/errors.ts';

/** Returns the error of this class with which a promise is rejected. @throws if it is not */
export async function catchFailure<Failure extends Error>(
  promise: PromiseLike<unknown>,
  type: abstract new (...args: never[]) => Failure,
): Promise<Failure> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof type) return error;
    throw error;
  }
  throw new Error('it was not rejected');
}

/** Returns the gateway’s error that a function throws. @throws if it throws none */
export function catchGatewayError(run: () => unknown): GatewayError {
  try {
    run();
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
  throw new Error('no error was thrown');
}
