/**
 * Test files that only `npm run test:all` and CI run: a quarter of the files and most of the work.
 * They start dozens of processes, servers, browsers or tools, or test thousands of cases. A file
 * that is named on the command line always runs.
 */

/** True under `npm run test:all`. */
export const isWhole = process.env['TESTS'] === 'all';

/** Files that `npm test` leaves out. */
export const slowFiles = [
  // Third-party tools: Prometheus, browsers, schemathesis, ffmpeg, compilers, clients packed and
  // installed from npm and PyPI.
  'test/api/decoders.test.ts',
  'test/api/schemathesis.test.ts',
  'test/clients/coding-agents.test.ts',
  'test/clients/generated.test.ts',
  'test/clients/python-loops.test.ts',
  'test/clients/python.test.ts',
  'test/clients/typescript.test.ts',
  'test/console/account.test.ts',
  'test/console/callers.test.ts',
  'test/console/operator.test.ts',
  'test/deploy/alerts.test.ts',
  'test/docs/snippets.test.ts',
  'test/vendors/vendor-types.test.ts',
  // Tests that start, kill and restart processes, stop servers or shift clocks.
  'test/api/canaries.test.ts',
  'test/api/crash.test.ts',
  'test/api/keyed-requests.test.ts',
  'test/api/races.test.ts',
  'test/chat/hardness.test.ts',
  'test/cli/studio.test.ts',
  'test/faults/lost-workflows.test.ts',
  'test/faults/outages.test.ts',
  'test/faults/restores.test.ts',
  'test/faults/slice.test.ts',
  'test/ledger/audit.test.ts',
  'test/platform/process-start.test.ts',
  'test/runbooks/gateway.test.ts',
  'test/runbooks/servers.test.ts',
  'test/telemetry/metrics.test.ts',
  'test/telemetry/tracing.test.ts',
  // Tests that install and start the servers of `npm start`, and tests of builds before and after a
  // change.
  'test/stack/bootstrap.test.ts',
  'test/stack/local-stack.test.ts',
  'test/stack/postgres.test.ts',
  'test/stack/temporal.test.ts',
  'test/workflows/deploys.test.ts',
  'test/workflows/payload-encryption.test.ts',
  'test/workflows/record.test.ts',
  'test/workflows/replay-command.test.ts',
  // Measurements, wide bodies, agent frameworks, and the sandbox as vendors' clients see it.
  'test/api/stalled-readers.test.ts',
  'test/api/wide-bodies.test.ts',
  'test/bench/bench.test.ts',
  'test/chat/client-loops.test.ts',
  'test/sandbox/elevenlabs-client.test.ts',
  'test/sandbox/fal-client.test.ts',
  'test/sandbox/openai-images-client.test.ts',
  'test/storage/container-bombs.test.ts',
];
