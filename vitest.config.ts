import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/harness/longest-first.ts';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/harness/servers.ts'],
    // Two cores, and tests about real servers, which wait for each other more than they compute.
    maxWorkers: 3,
    // What a test starts it ends; to load all modules anew for each file took a quarter of the run.
    isolate: false,
    sequence: { sequencer: LongestFirst },
    testTimeout: 60_000,
    // Of tests that wait together, most of the time is waiting.
    maxConcurrency: 16,
    hookTimeout: 120_000,
    teardownTimeout: 20_000,
    // Shared machines stall for seconds. A test that fails twice in a row fails; locally, once is enough.
    retry: process.env['CI'] ? 1 : 0,
    // A busy machine is no failure: what is polled for may take its time.
    expect: { poll: { timeout: 15_000 } },
  },
});
