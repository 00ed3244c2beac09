/** True under `npm run test:all`: random tests run more rounds. */
export const isWhole = process.env['TESTS'] === 'all';

/**
 * Names of test files that only `npm run test:all` and CI run: they take more than 4 seconds of CPU, start processes,
 * servers, browsers or third-party tools, kill or stop servers, measure, or test thousands of cases.
 */
export const slowFiles = '**/*.slow.test.ts';
