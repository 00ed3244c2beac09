/**
 * Turns for long work of one request: it is done in steps of some milliseconds. Between two steps,
 * the event loop serves other requests, and the owners of long work take turns.
 */
import { setImmediate as serveOtherRequests } from 'node:timers/promises';
import { GatewayError } from '../domain/errors.ts';
import { createShares } from './shares.ts';

/** Units of the process: one step of long work at a time. */
const workTurns = createShares(1);
/** Maximum time that work waits for its next step, in milliseconds. */
const turnWaitMs = 60_000;
/** Time after which long work waits for its next turn, in milliseconds. */
const sliceMs = 8;

/**
 * Runs one step of long work in a turn of its owner. The turn of an asynchronous step ends at its
 * first wait.
 * @throws GatewayError SERVICE_UNAVAILABLE if the step waits longer than `turnWaitMs`
 */
export async function runInTurn<Result>(
  owner: string,
  run: () => Result | Promise<Result>,
): Promise<Result> {
  const endTurn = await workTurns.enter(owner, turnWaitMs);
  if (!endTurn) throw new GatewayError('SERVICE_UNAVAILABLE', undefined, { retryAfterSeconds: 2 });
  let result: Result | Promise<Result>;
  try {
    await serveOtherRequests();
    result = run();
  } finally {
    endTurn();
  }
  return result;
}

/**
 * Yields a text for each of these portions. `takeTurn` is awaited before each portion, and returns the
 * function that ends its turn.
 */
export async function* formatInTurns<Portion>(
  portions: AsyncGenerator<Portion>,
  takeTurn: () => Promise<() => void>,
  format: (portion: Portion) => string | Promise<string>,
): AsyncGenerator<string> {
  for (;;) {
    const endTurn = await takeTurn();
    let text: string;
    try {
      const portion = await portions.next();
      if (portion.done) return;
      text = await format(portion.value);
    } finally {
      endTurn();
    }
    yield text;
  }
}

/**
 * Returns a function that work with many short steps awaits before each step. It waits for a turn of
 * the owner when the steps have taken `sliceMs` since the last one.
 */
export function paceWork(owner: string): () => Promise<void> {
  let sliceEndsAtMs = performance.now() + sliceMs;
  return async () => {
    if (performance.now() < sliceEndsAtMs) return;
    await runInTurn(owner, () => {
      sliceEndsAtMs = performance.now() + sliceMs;
    });
  };
}
