import { configDefaults, defineConfig } from 'vitest/config';
import { LongestFirst } from './test/harness/longest-first.ts';
import { isWhole, slowFiles } from './test/harness/whole.ts';

/** `npm test -- test/outages/crash.slow.test.ts`, or a path with a folder, runs slow files too. */
const namesFiles = process.argv.some((word) => word.startsWith('test/'));

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: [...configDefaults.exclude, ...(isWhole || namesFiles ? [] : [slowFiles])],
    globalSetup: ['test/harness/servers.ts'],
    setupFiles: ['test/harness/file-costs.ts'],
    reporters: ['default', './test/harness/cost-reporter.ts'],
    // Two cores, and tests about real servers, which wait for each other more than they compute.
    maxWorkers: 5,
    // Fewer garbage collections, because what a test allocates lives until its requests end.
    execArgv: ['--max-semi-space-size=64'],
    // What a test starts it ends; to load all modules anew for each file took a quarter of the run.
    isolate: false,
    // Node loads the sources as in production, from its compile cache, without a transformation by Vite.
    experimental: { viteModuleRunner: false },
    sequence: { sequencer: LongestFirst },
    // Of tests that wait together, most of the time is waiting.
    maxConcurrency: 16,
    // Bounds are for what hangs, never a measure of speed: another machine is slower and busy.
    testTimeout: 480_000,
    hookTimeout: 480_000,
    teardownTimeout: 60_000,
    expect: { poll: { timeout: 180_000, interval: 100 } },
  },
});
