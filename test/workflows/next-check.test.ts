import { assert as check, boolean, integer, property } from 'fast-check';
import { expect, it } from 'vitest';
import {
  decideNext,
  calculateWaitMs,
  type NextAction,
  type WaitState,
} from '../../workflows/next-check.ts';

const fresh: WaitState = {
  deadlineAtMs: 600_000,
  outcomeWaitMs: 300_000,
  waitMs: 24_000,
  cancelSent: false,
  overdue: false,
};
const canceled = { ...fresh, cancelSent: true, waitMs: 1000 };
const overdue = { ...canceled, overdue: true };
/** The change of a state by a cancel. */
const cancels = { cancelSent: true, waitMs: 1000 };
const shortWait = { ...fresh, waitMs: 300 };
const longWait = { ...canceled, waitMs: 20_000 };
const atDeadline: NextAction[] = ['cancel', 'mark_verifying'];
const verifying = { overdue: true, waitMs: 2000 };

it.each<[string, WaitState, number, boolean, NextAction[], Partial<WaitState>]>([
  ['waits twice as long for the next check', fresh, 24_000, false, [], { waitMs: 48_000 }],
  ['sends a requested cancel', fresh, 24_000, true, ['cancel'], cancels],
  ['keeps a short wait after a cancel', shortWait, 1, true, ['cancel'], { cancelSent: true }],
  ['sends a cancel once', canceled, 25_000, true, [], { waitMs: 2000 }],
  ['waits at most half a minute after a cancel', longWait, 1, true, [], { waitMs: 30_000 }],
  [
    'sends a cancel at the deadline',
    fresh,
    600_000,
    false,
    atDeadline,
    { ...cancels, overdue: true },
  ],
  ['sends no second cancel', canceled, 600_000, true, ['mark_verifying'], verifying],
  ['waits for the outcome after the deadline', overdue, 899_999, false, [], { waitMs: 2000 }],
  ['gives up when the outcome is not known in time', overdue, 900_000, false, ['give_up'], {}],
])(
  'a check that found the call pending %s',
  (_case, waiting, nowMs, cancelRequested, actions, changes) => {
    expect(decideNext(waiting, { nowMs, cancelRequested })).toEqual({
      waiting: { ...waiting, ...changes },
      actions,
    });
  },
);

it.each([
  [fresh, 0, 24_000],
  [fresh, 590_000, 10_000],
  [fresh, 600_000, 1],
  [overdue, 600_000, 1000],
  [{ ...overdue, waitMs: 30_000 }, 890_000, 10_000],
])('the wait before the next check %o at %i: %i ms', (waiting, nowMs, waitMs) => {
  expect(calculateWaitMs(waiting, nowMs)).toBe(waitMs);
});

it('a provider that never responds is checked a few times, canceled once and verified once', () => {
  check(
    property(integer({ min: 50, max: 3_600_000 }), boolean(), (waitMs, cancelRequested) => {
      let waiting: WaitState = { ...fresh, waitMs };
      const done: NextAction[] = [];
      let nowMs = 0;
      let checks = 0;
      while (!done.includes('give_up')) {
        nowMs += calculateWaitMs(waiting, nowMs);
        checks += 1;
        const next = decideNext(waiting, { nowMs, cancelRequested });
        ({ waiting } = next);
        done.push(...next.actions);
      }
      expect(done.toSorted()).toEqual(['cancel', 'give_up', 'mark_verifying']);
      expect(nowMs).toBe(fresh.deadlineAtMs + fresh.outcomeWaitMs);
      expect(checks).toBeLessThan(60);
    }),
  );
});
