/**
 * Test files that only `npm run test:all` and CI run: more than a quarter of the files and most of the work.
 * They start dozens of processes, servers, browsers or tools, or test thousands of cases. A file
 * that is named on the command line always runs.
 */

/** True under `npm run test:all`. */
export const isWhole = process.env['TESTS'] === 'all';

/** Files that `npm test` leaves out. */
export const slowFiles = [
  // Third-party tools: Prometheus, browsers, schemathesis, ffmpeg, compilers, clients packed and
  // installed from npm and PyPI.
  'test/journeys/decodable-media.test.ts',
  'test/attacks/schemathesis.test.ts',
  'test/clients/ai-sdk.test.ts',
  'test/clients/coding-agents.test.ts',
  'test/clients/generated.test.ts',
  'test/clients/generators.test.ts',
  'test/clients/openapi-generator.test.ts',
  'test/clients/python-loops.test.ts',
  'test/clients/python.test.ts',
  'test/clients/typescript.test.ts',
  'test/clients/console/account.test.ts',
  'test/clients/console/callers.test.ts',
  'test/clients/console/layout.test.ts',
  'test/clients/console/operator.test.ts',
  'test/deploy/alerts.test.ts',
  'test/docs/snippets.test.ts',
  'test/dev/vendors/vendor-types.test.ts',
  // Tests that start, kill and restart processes, stop servers or shift clocks.
  'test/attacks/leaked-secrets.test.ts',
  'test/outages/crash.test.ts',
  'test/ledger/claims.test.ts',
  'test/journeys/races.test.ts',
  'test/chat/hardness.test.ts',
  'test/clients/cli/studio.test.ts',
  'test/outages/lost-workflows.test.ts',
  'test/outages/outages.test.ts',
  'test/outages/restores.test.ts',
  'test/outages/crash-matrix.test.ts',
  'test/ledger/audit.test.ts',
  'test/platform/process-start.test.ts',
  'test/runbooks/gateway.test.ts',
  'test/runbooks/servers.test.ts',
  'test/telemetry/metrics.test.ts',
  'test/telemetry/tracing.test.ts',
  // Tests that install and start the servers of `npm start`, and tests of builds before and after a
  // change.
  'test/dev/stack/bootstrap.test.ts',
  'test/dev/stack/local-stack.test.ts',
  'test/dev/stack/postgres.test.ts',
  'test/dev/stack/temporal.test.ts',
  'test/workflows/deploys.test.ts',
  'test/workflows/payload-encryption.test.ts',
  'test/workflows/record.test.ts',
  'test/workflows/replay-command.test.ts',
  // Measurements, wide bodies, agent frameworks, and the sandbox as vendors' clients see it.
  'test/attacks/stalled-readers.test.ts',
  'test/attacks/wide-bodies.test.ts',
  'test/dev/bench/bench.test.ts',
  'test/chat/client-loops.test.ts',
  'test/dev/sandbox/elevenlabs-client.test.ts',
  'test/dev/sandbox/fal-client.test.ts',
  'test/dev/sandbox/openai-images-client.test.ts',
  'test/attacks/container-bombs.test.ts',
  // Files with most CPU of the rest: load of hostile callers, vendors' SDKs and tools, servers that
  // stop, and hundreds of random cases.
  'test/api/openai-endpoints.test.ts',
  'test/api/openai-waits.test.ts',
  'test/attacks/hostile-load.test.ts',
  'test/attacks/neighbors.test.ts',
  'test/bulk/bulk-budget.test.ts',
  'test/ledger/one-transaction.test.ts',
  'test/outages/postgres-outages.test.ts',
  'test/storage/content-credentials.test.ts',
  'test/workflows/branches.test.ts',
];
