/** `npm run dev -- <command> [arguments]`: runs commands for developing the project. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

interface DevCommand {
  about: string;
  /** Arguments for Node: a script of the project and its first arguments. */
  script: readonly string[];
  env?: Readonly<Record<string, string>>;
}

const root = fileURLToPath(new URL('../', import.meta.url));
const vitest = 'node_modules/vitest/vitest.mjs';

const commands: Readonly<Record<string, DevCommand>> = {
  bench: {
    about: 'benchmarks: studio, bulk, chat, ledger or growth (docs/performance.md)',
    script: ['dev/bench/main.ts'],
  },
  catalog: {
    about: 'rebuilds the catalog of chat models (dev/catalog/README.md)',
    script: ['dev/catalog/build-chat-models.ts'],
  },
  chaos: {
    about: 'random kills under load, then the audit (docs/faults.md)',
    script: ['test/faults/chaos.ts'],
  },
  'check-chart': { about: 'checks the Helm chart', script: ['dev/chart/main.ts'] },
  'check-compose': {
    about: 'checks that Docker Compose passes every setting to every process',
    script: ['dev/compose/main.ts'],
  },
  'check-cluster': {
    about: 'runs the services of docker-compose.yml and disturbs them under load (docs/faults.md)',
    script: ['dev/cluster/main.ts'],
  },
  'check-image': {
    about: 'builds the image and runs docker-compose.yml on a Docker engine',
    script: ['dev/compose/image.ts'],
  },
  clients: {
    about: 'regenerates the clients from the API’s description',
    script: ['dev/clients/generate.ts'],
  },
  console: {
    about: 'serves the console with live reload; needs a gateway on port 4000',
    script: ['node_modules/vite/bin/vite.js', 'clients/console'],
  },
  'console-build': { about: 'builds the console', script: ['clients/console/build.ts'] },
  draw: {
    about: 'draws the import graph into docs/architecture.md',
    script: ['dev/docs/draw.ts'],
  },
  faults: {
    about: 'kills each process at each step of a job (docs/faults.md)',
    script: ['test/faults/matrix.ts'],
  },
  'first-paint': {
    about: 'measures how soon a browser draws the console of a running stack (docs/performance.md)',
    script: ['dev/docs/first-paint.ts'],
  },
  'record-release': {
    about: 'records the database of a release for the tests of the upgrade',
    script: ['dev/upgrade/record.ts'],
  },
  'record-histories': {
    about: 'records the workflow histories that tests replay',
    script: [vitest, 'run', 'test/workflows/record.slow.test.ts'],
    env: { RECORD_HISTORIES: '1' },
  },
  mutations: {
    about: 'plants known faults and runs the tests that should detect them',
    script: ['test/faults/mutations.ts'],
  },
  outages: {
    about: 'outages, clocks, rolling upgrades and races at full length (docs/faults.md)',
    script: [
      vitest,
      'run',
      '--no-file-parallelism',
      'test/outages/outages.slow.test.ts',
      'test/outages/clocks.slow.test.ts',
      'test/outages/rolling-restart.slow.test.ts',
      'test/journeys/races.slow.test.ts',
    ],
    env: { FAULTS: 'all', TESTS: 'all' },
  },
  screenshots: {
    about: 'takes the screenshots in docs/ on a running stack',
    script: ['dev/docs/screenshots.ts'],
  },
  'trace-viewer': {
    about: 'shows traces in a browser (docs/telemetry.md)',
    script: ['dev/docs/trace-viewer.ts'],
  },
};

const [name = '', ...rest] = process.argv.slice(2);
const command = commands[name];
if (command) {
  const { script, env } = command;
  const child = spawn(process.execPath, [...script, ...rest], {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      // The terminal already sends Ctrl-C to the child.
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
    });
  }
  child.on('exit', (code) => {
    process.exitCode = code ?? 1;
  });
} else {
  const rows = Object.entries(commands).map(
    ([commandName, { about }]) => `  ${commandName.padEnd(18)}${about}`,
  );
  if (name !== '') console.error(`unknown command: ${name}\n`);
  console.error(`npm run dev -- <command> [arguments]\n\n${rows.join('\n')}`);
  process.exitCode = name === '' ? 0 : 2;
}
