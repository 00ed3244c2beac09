/** `npm run dev -- <command> [arguments]`: commands for work on the project itself. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

interface DevCommand {
  about: string;
  /** Script of the project for Node, with its first arguments. */
  script: readonly string[];
  env?: Readonly<Record<string, string>>;
}

const root = fileURLToPath(new URL('../', import.meta.url));
const vitest = 'node_modules/vitest/vitest.mjs';

const commands: Readonly<Record<string, DevCommand>> = {
  bench: {
    about: 'benchmarks: studio, chat or ledger (docs/performance.md)',
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
    about: 'checks with Docker Compose that every setting reaches every process',
    script: ['dev/compose/main.ts'],
  },
  'check-cluster': {
    about: 'runs the processes of docker-compose.yml and breaks them under load',
    script: ['dev/cluster/main.ts'],
  },
  clients: {
    about: 'regenerates the clients from the API’s description',
    script: ['dev/clients/generate.ts'],
  },
  'clients-pack': {
    about: 'packs the clients into .cache/clients',
    script: ['dev/clients/pack.ts'],
  },
  console: {
    about: 'serves the sources of console/ beside a gateway on port 4000',
    script: ['node_modules/vite/bin/vite.js', 'console'],
  },
  'console-build': { about: 'builds the console', script: ['console/build.ts'] },
  draw: {
    about: 'draws the import graph into docs/architecture.md',
    script: ['dev/docs/draw.ts'],
  },
  faults: { about: 'the crash matrix (docs/faults.md)', script: ['test/faults/matrix.ts'] },
  'record-histories': {
    about: 'records the workflow histories that tests replay',
    script: [vitest, 'run', 'test/workflows/record.test.ts'],
    env: { RECORD_HISTORIES: '1' },
  },
  mutations: {
    about: 'plants known faults and runs the tests that must find them',
    script: ['test/faults/mutations.ts'],
  },
  outages: {
    about: 'outages, clocks, rolling upgrades and races at full length (docs/faults.md)',
    script: [
      vitest,
      'run',
      '--no-file-parallelism',
      'test/faults/outages.test.ts',
      'test/faults/clocks.test.ts',
      'test/faults/rolling.test.ts',
      'test/api/races.test.ts',
    ],
    env: { FAULTS: 'all', TESTS: 'all' },
  },
  sandbox: { about: 'the provider sandbox alone', script: ['dev/sandbox/main.ts'] },
  screenshots: {
    about: 'takes the screenshots of docs/ on a running stack',
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
      // A terminal sends Ctrl-C to the child as well.
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
    });
  }
  child.on('exit', (code) => {
    process.exitCode = code ?? 1;
  });
} else {
  const rows = Object.entries(commands).map(([each, { about }]) => `  ${each.padEnd(18)}${about}`);
  if (name !== '') console.error(`unknown command: ${name}\n`);
  console.error(`npm run dev -- <command> [arguments]\n\n${rows.join('\n')}`);
  process.exitCode = name === '' ? 0 : 2;
}
