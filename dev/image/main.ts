/**
 * `npm run check:image`: builds the image, unpacks it, and runs migrations, API, worker and the first key from its
 * files, in a chroot, as its user, on a read-only root, against an embedded Postgres, a local Temporal and
 * the sandbox; makes one picture. It is no container: what an engine adds (limits, capabilities) is not tried.
 */
import { copyFile, lstat, mkdir, readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { z } from 'zod';
import { startServers, type Servers } from '../bench/servers.ts';
import { runAndStop, type Stops } from '../bench/stops.ts';
import { gatewayEnvironment, project } from '../cluster/compose.ts';
import { freePort } from '../stack/free-port.ts';
import { logTail } from '../stack/running.ts';
import { findS3Server, startS3Server, type S3Server } from '../stack/s3-server.ts';
import { makeTemporaryDirectory } from '../stack/temporary-directory.ts';
import { buildImage, unmountBelow, whyNot } from './build.ts';
import { openChroot, type Chroot } from './chroot.ts';

const sizeMaxMegabytes = 300;
const readyTimeoutMs = 120_000;
const database = 'image';
const stampLabel = 'org.opencontainers.image.revision';

const report = (line: string): void => void process.stdout.write(`${line}\n`);

/** Bytes of all files below a directory; a file with several names counts once. */
async function sizeOf(root: string, seen = new Set<number>()): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(root, { withFileTypes: true })) {
    const path = join(root, entry.name);
    // In turn: there are tens of thousands.
    if (entry.isDirectory()) bytes += await sizeOf(path, seen);
    if (!entry.isFile()) continue;
    const { ino, size } = await lstat(path);
    if (!seen.has(ino)) bytes += size;
    seen.add(ino);
  }
  return bytes;
}

/** What docker-compose.yml tells the gateway, with the addresses of this machine and the image's own paths. */
function environment(given: { servers: Servers; s3: S3Server; port: number }): NodeJS.ProcessEnv {
  const { servers, s3, port } = given;
  const { plan, secrets } = servers;
  const { PATH: _, HOME: __, STORAGE_DIR: ___, API_HOST: ____, ...env } = plan.api.env;
  const url = `http://127.0.0.1:${port}`;
  return {
    ...gatewayEnvironment(env, { url, s3, sandboxUrl: plan.sandboxUrl }),
    DATABASE_URL: plan.databaseUrl.replace(/[^/]*$/, database),
    API_PORT: String(port),
    METRICS_HOST: '127.0.0.1',
    // Workflow bundles of both kinds must be in the image.
    PAYLOAD_ENCRYPTION: 'true',
    STUDIO_API_URL: url,
    STUDIO_ADMIN_KEY: secrets.adminKey,
  };
}

/** Starts an API or a worker of the image; ready when this returns. */
async function startReady(
  chroot: Chroot,
  started: Stops,
  { name, env }: { name: 'api' | 'worker'; env: NodeJS.ProcessEnv },
): Promise<void> {
  const port = await freePort();
  const own = { ...env, METRICS_PORT: String(port) };
  const running = await chroot.start({ name, command: ['node', `${name}/main.ts`], env: own });
  started.push(async () => {
    await running.stop();
    const { code } = await running.exited;
    report(`${name} ended with ${code}`);
    if (code !== 0) process.exitCode = 1;
  });
  const deadline = Date.now() + readyTimeoutMs;
  for (;;) {
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null);
    if (answer?.ok) break;
    if (Date.now() > deadline) {
      throw new Error(`${name} was not ready\n${logTail(chroot.logPath(name))}`);
    }
    await sleep(500);
  }
  report(`${name} is ready`);
}

/** deploy/first-key.sh, as docker-compose.yml runs it. @returns the key */
async function firstKey(chroot: Chroot, env: NodeJS.ProcessEnv): Promise<string> {
  const name = 'first-key';
  const script = chroot.dataFile(name, 'first-key.sh');
  await mkdir(dirname(script), { recursive: true });
  await copyFile(join(project, 'deploy', 'first-key.sh'), script);
  const command = ['sh', '/data/first-key.sh', '/data/first-key'];
  const keyOf = async (): Promise<string> => {
    const told = await chroot.run({ name, command, env });
    const [, key] = /API key +(\S+)/.exec(told) ?? [];
    if (key === undefined) throw new Error(`no key in: ${told}`);
    return key;
  };
  const key = await keyOf();
  if ((await keyOf()) !== key) throw new Error('the first key was made twice');
  return key;
}

const picture = z.object({
  data: z.object({ images: z.array(z.object({ url: z.string() })).min(1) }),
  credits: z.object({ used: z.number() }),
});

/** The console's page, and a script that it names. */
async function readConsole(url: string): Promise<void> {
  const page = await fetch(`${url}/console`);
  const [, script] = /src="([^"]+\.js)"/.exec(await page.text()) ?? [];
  const answer = await fetch(new URL(script ?? '/nothing', url));
  if (!page.ok || !answer.ok) throw new Error(`the console: ${page.status}, ${answer.status}`);
  report('the console is there');
}

/** One picture, read back by its URL. */
async function makePicture(url: string, key: string): Promise<void> {
  const answer = await fetch(`${url}/api/v1/studio/image/generate`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'a lighthouse at dawn' }),
  });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`the picture: ${answer.status} ${text}`);
  const { data, credits } = picture.parse(JSON.parse(text));
  const image = await fetch(data.images[0]?.url ?? '');
  const { byteLength } = await image.arrayBuffer();
  const type = image.headers.get('content-type');
  if (!image.ok || byteLength === 0) throw new Error(`the picture's URL: ${image.status}`);
  report(`a picture: ${type}, ${byteLength} bytes, ${credits.used} credits`);
}

async function makeDatabase(servers: Servers): Promise<void> {
  const client = new Client({ connectionString: servers.plan.databaseUrl });
  await client.connect();
  await client.query(`CREATE DATABASE ${database}`);
  await client.end();
}

async function run(started: Stops): Promise<void> {
  const reason = whyNot();
  if (reason !== null) throw new Error(reason);
  const directory = makeTemporaryDirectory('image');
  started.push(async () => {
    await unmountBelow(directory);
    await rm(directory, { recursive: true, force: true });
  });
  const image = await buildImage(directory, report);
  const megabytes = (await sizeOf(image.root)) / 1_000_000;
  report(`the image: ${megabytes.toFixed(0)} MB of files, revision ${image.labels[stampLabel]}`);
  if (megabytes > sizeMaxMegabytes) throw new Error(`more than ${sizeMaxMegabytes} MB`);

  const servers = await startServers(directory, started);
  const s3 = await startS3Server(await findS3Server());
  started.push(s3.stop);
  await makeDatabase(servers);
  const port = await freePort();
  const env = environment({ servers, s3, port });
  const chroot = openChroot(image, join(directory, 'processes'));
  const migrate = { name: 'migrate', command: ['node', 'platform/migrate.ts'], env };
  // Twice: a release runs it again.
  for (let times = 0; times < 2; times += 1) report((await chroot.run(migrate)).trim());
  await startReady(chroot, started, { name: 'api', env });
  await startReady(chroot, started, { name: 'worker', env });
  const key = await firstKey(chroot, env);
  report('the first key is made, once');
  await makePicture(`http://127.0.0.1:${port}`, key);
  await readConsole(`http://127.0.0.1:${port}`);
}

await runAndStop(run).catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
