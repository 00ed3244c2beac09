/**
 * `npm run dev -- trace-viewer`: shows traces in Arize Phoenix, which it installs from PyPI (850 MB). Phoenix also receives
 * traces, as OTLP at the same address (docs/telemetry.md).
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { installPython, lastErrorLine } from '../stack/tools.ts';
import { makeTemporaryDirectory } from '../stack/temporary-directory.ts';

const port = process.env['TRACE_VIEWER_PORT'] ?? '6006';

try {
  process.stdout.write('installing Arize Phoenix from PyPI, unless it is installed (minutes)\n');
  const directory = await installPython('trace-viewer', ['arize-phoenix==20.26.1']);
  const env = {
    ...process.env,
    PHOENIX_WORKING_DIR: makeTemporaryDirectory('traces'),
    PHOENIX_HOST: '127.0.0.1',
    PHOENIX_PORT: port,
    PHOENIX_GRPC_PORT: String(Number(port) + 1),
    PHOENIX_TELEMETRY_ENABLED: 'false',
  };
  const viewer = spawn(join(directory, 'phoenix'), ['serve'], { env, stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => viewer.kill());
  viewer.on('exit', (code) => {
    process.exitCode = code ?? 0;
  });
} catch (error) {
  process.stderr.write(`${lastErrorLine(error)}\n`);
  process.exitCode = 1;
}
