/**
 * What only `npm run test:all` runs: measurements, rehearsals, outages of minutes, matrices of thousands of cases,
 * generated requests, the programs of the documentation, and clients that are made, packed and installed with what
 * they need from npm and PyPI.
 */

/** True under `npm run test:all`, where tests that walk a part of something walk all of it. */
export const isWhole = process.env['TESTS'] === 'all';

/** Files that `npm test` leaves out. */
export const slowFiles = [
  'test/api/schemathesis.test.ts',
  'test/api/wide-bodies.test.ts',
  'test/bench/bench.test.ts',
  'test/bench/chat-bench.test.ts',
  'test/clients/generated.test.ts',
  'test/clients/python.test.ts',
  'test/clients/typescript.test.ts',
  'test/docs/snippets.test.ts',
  'test/faults/outages.test.ts',
  'test/faults/restores.test.ts',
  'test/faults/slice.test.ts',
  'test/runbooks/gateway.test.ts',
  'test/runbooks/servers.test.ts',
];

/**
 * Of a matrix, what the row at this place has to do with: a fifth of the columns, others for the next row,
 * so that every row meets some columns and every column some rows; all of them under `npm run test:all`.
 */
export const portion = <T>(columns: readonly T[], row: number): readonly T[] =>
  columns.filter((_, column) => isWhole || (column + row) % 5 === 0);
