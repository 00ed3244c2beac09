import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/harness/servers.ts'],
    // Every test is about real servers on two cores: more files at once only wait for each other.
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    teardownTimeout: 20_000,
    // Shared machines stall for seconds. A test that fails twice in a row fails; locally, once is enough.
    retry: process.env['CI'] ? 1 : 0,
    // A busy machine is no failure: what is polled for may take its time.
    expect: { poll: { timeout: 15_000 } },
  },
});
