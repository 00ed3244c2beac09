/** Waits for conditions. */
import { vi } from 'vitest';

/** The limit for conditions that are never met, milliseconds; it does not measure speed. */
const hangMs = 180_000;

/**
 * Calls a function repeatedly until its result is truthy, and returns that. @throws after three minutes
 */
export const until = <T>(check: () => T | Promise<T>) =>
  vi.waitUntil(check, { timeout: hangMs, interval: 25 });

/** Repeats a check until it passes; unlike `expect.poll`, it also works in concurrent tests. */
export const untilHolds = <T>(check: () => T | Promise<T>) =>
  vi.waitFor(check, { timeout: hangMs, interval: 100 });
