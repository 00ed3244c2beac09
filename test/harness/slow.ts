/** What only `npm run test:all` runs: measurements, and walks over thousands of cases. */

/** True under `npm run test:all`, where tests that walk a part of something walk all of it. */
export const isWhole = process.env['TESTS'] === 'all';

/** Files that `npm test` leaves out. */
export const slowFiles = ['test/bench/bench.test.ts', 'test/bench/chat-bench.test.ts'];
