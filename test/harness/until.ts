/** Waiting for what comes by itself. */
import { vi } from 'vitest';

/** For what never comes; no measure of how quick it should. */
const hangMs = 60_000;

/** Asks again and again until the answer is a truthy value, and returns that. @throws after a minute. */
export const until = <T>(check: () => T | Promise<T>) =>
  vi.waitUntil(check, { timeout: hangMs, interval: 10 });

/** Checks again and again until it holds; unlike `expect.poll`, also in tests that run side by side. */
export const untilHolds = (check: () => unknown) =>
  vi.waitFor(check, { timeout: hangMs, interval: 40 });
