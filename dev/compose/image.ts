/**
 * `npm run dev -- check-image`: builds the image and runs docker-compose.yml with the sandbox on a Docker engine, as an
 * operator would: up, image, chat, an upgrade and a killed worker under load, stop, down, up. An engine without a registry
 * runs stand-ins of the official images (stand-ins.ts). The exit status is 1 if anything differs from docs/deployment.md.
 */
import { strict as assert } from 'node:assert';
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { project } from '../cluster/compose.ts';
import { freePort } from '../stack/free-port.ts';
import { makeTemporaryDirectory } from '../stack/temporary-directory.ts';
import { lastingCache } from '../stack/tools.ts';
import { findEngine, runCommand, type Engine } from './engine.ts';
import { makeImages } from './stand-ins.ts';

const beganAt = performance.now();
const report = (line: string): void => {
  const seconds = ((performance.now() - beganAt) / 1000).toFixed(0);
  process.stdout.write(`${seconds.padStart(5)} s  ${line}\n`);
};

const rate = 2;
const settledWithinMs = 120_000;
const settings = (port: number): readonly string[] => [
  `API_PORT=${port}`,
  'RATE_LIMIT_PER_MINUTE=1000',
  `ALLOW_PRIVATE_NETWORK_ORIGINS=http://sandbox:4100,http://localhost:${port},http://localhost:7070`,
];

/** Deployment in a copy of the project, with a `.env` of its own. */
interface Deployment {
  url: string;
  /** Runs a shell command in the copy, and returns its output. */
  run: (command: string) => Promise<string>;
}

/** Copies the files that git knows or would add, so that neither dependencies nor a developer's `.env` are in the copy. */
async function copyProject(directory: string): Promise<void> {
  const list = ['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  for (const path of (await runCommand(list, { cwd: project })).split('\0')) {
    if (path === '' || !existsSync(join(project, path))) continue;
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    cpSync(join(project, path), join(directory, path));
  }
  // The older builder, which needs no plugin, reads only this name.
  cpSync(join(project, 'deploy', 'Dockerfile.dockerignore'), join(directory, '.dockerignore'));
}

async function prepare(engine: Engine, directory: string): Promise<Deployment> {
  await copyProject(directory);
  const port = await freePort();
  const env = { ...engine.env, COMPOSE_PROJECT_NAME: 'studio-gateway-check' };
  const run = (command: string) => runCommand(['sh', '-c', command], { cwd: directory, env });
  writeFileSync(join(directory, '.env'), settings(port).join('\n'));
  await run('sh deploy/secrets.sh --sandbox');
  return { url: `http://localhost:${port}`, run };
}

const imageAnswer = z.object({
  data: z.object({ images: z.tuple([z.object({ url: z.string() })]) }),
});
const acceptedAnswer = z.object({ data: z.object({ jobId: z.string() }) });
const jobAnswer = z.object({ data: z.object({ done: z.boolean(), status: z.string() }) });

/** Calls the API with a key; each method throws unless the answer is a success of the expected shape. */
function createCaller({ url }: Deployment, apiKey: string) {
  const request = async (path: string, body?: object): Promise<unknown> => {
    const response = await fetch(`${url}/api/v1${path}`, {
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(90_000),
    });
    const answer = await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status} ${answer}`);
    return JSON.parse(answer);
  };
  const imagePath = '/studio/image/generate';
  const readJob = async (jobId: string) =>
    jobAnswer.parse(await request(`/studio/jobs/${jobId}`)).data;
  return {
    readJob,
    async makeImage(): Promise<string> {
      const answer = imageAnswer.parse(await request(imagePath, { prompt: 'a ferry' }));
      return answer.data.images[0].url;
    },
    async startImage(): Promise<string> {
      const answer = await request(imagePath, { prompt: 'a ferry', async: true });
      return acceptedAnswer.parse(answer).data.jobId;
    },
    async chat(): Promise<void> {
      const messages = [{ role: 'user', content: 'What lights a harbour?' }];
      const answer = await request('/chat', { model: 'gpt-5-mini', messages });
      z.object({ content: z.string().min(1) }).parse(answer);
    },
    /** Waits until a job has ended; returns its status. */
    async untilDone(jobId: string): Promise<string> {
      const deadline = Date.now() + settledWithinMs;
      for (;;) {
        const { done, status } = await readJob(jobId);
        if (done || Date.now() > deadline) return status;
        await sleep(500);
      }
    },
  };
}
type Caller = ReturnType<typeof createCaller>;

/** Sends images, asynchronous images and chats until `event` has ended; none may fail, and each job must be completed. */
async function underLoad(
  caller: Caller,
  name: string,
  event: () => Promise<unknown>,
): Promise<void> {
  const kinds = [() => caller.makeImage(), () => caller.startImage(), () => caller.chat()];
  const jobs: string[] = [];
  const failures: string[] = [];
  let sent = 0;
  const over = new AbortController();
  const send = async (turn: number): Promise<void> => {
    const result = await kinds[turn % kinds.length]?.();
    if (turn % kinds.length === 1) jobs.push(String(result));
  };
  const generate = async (): Promise<void> => {
    const answers: Promise<void>[] = [];
    for (; !over.signal.aborted; sent += 1) {
      answers.push(send(sent).catch((error: unknown) => void failures.push(String(error))));
      await sleep(1000 / rate);
    }
    await Promise.all(answers);
  };
  const ending = event().finally(() => over.abort());
  await Promise.all([generate(), ending]);
  const ends = await Promise.all(jobs.map((jobId) => caller.untilDone(jobId)));
  const open = ends.filter((status) => status !== 'completed');
  assert.deepEqual({ failures, open }, { failures: [], open: [] }, name);
  report(`${name}: ${sent} requests, none failed; ${jobs.length} asynchronous jobs completed`);
}

/** Follows docs/deployment.md on a fresh deployment. */
async function check(deployment: Deployment): Promise<void> {
  const { url, run } = deployment;
  const up = 'docker compose up --detach --no-build --wait --wait-timeout 300';
  const audit = 'docker compose exec -T worker-1 node worker/audit-command.ts';
  await run(up);
  report('up: `docker compose up --wait` returned, all services healthy');
  const printed = await run('docker compose logs --no-log-prefix first-key');
  const apiKey = /API key +(\S+)/.exec(printed)?.[1] ?? '';
  assert.ok(printed.includes(`API      ${url}\n`), printed);
  const caller = createCaller(deployment, apiKey);
  const media = await fetch(await caller.makeImage());
  assert.deepEqual([media.status, media.headers.get('content-type')], [200, 'image/png']);
  await caller.chat();
  report('image and chat: made with the first key; the URL of the image serves it');
  const listed = await run('docker compose exec -T api-1 studio admin jobs');
  assert.match(listed, /job_/);
  const workflows = await run('docker compose run --rm -T temporal-cli workflow list');
  assert.match(workflows, /job_/);
  report('`studio` and `temporal-cli` list the job');

  const before = await run('docker compose images --quiet api-1');
  // Changes the last layer only, so that the new image is built within seconds.
  await run("echo '# next release' >>deploy/studio.sh");
  await underLoad(caller, 'upgrade', async () => {
    assert.match(await run('sh deploy/upgrade.sh'), /^upgraded$/m);
  });
  assert.notEqual(await run('docker compose images --quiet api-1'), before);
  await underLoad(caller, 'killed worker and API', async () => {
    for (const service of ['worker-1', 'api-1']) {
      // Kills all processes of the container but its init, which then exits, so that the engine starts it again.
      await run(`docker compose exec -T ${service} bash -c 'kill -9 -1' || true`);
      await run(up);
    }
  });
  await run(audit);

  await run('docker compose stop api-1 worker-1');
  const exits = await run("docker compose ps --all --format '{{.Service}} {{.ExitCode}}'");
  assert.match(exits, /^api-1 0$/m);
  assert.match(exits, /^worker-1 0$/m);
  await caller.makeImage();
  report('stop: an API and a worker exit with 0, the others go on');
  const jobId = await caller.startImage();
  await caller.untilDone(jobId);
  await run('docker compose down');
  await run(up);
  assert.equal((await caller.readJob(jobId)).status, 'completed');
  assert.match(await run('docker compose logs first-key'), /printed at the first start/);
  await caller.makeImage();
  await run(audit);
  report('down, up: key and jobs are kept, the audit finds nothing');
}

async function main(): Promise<void> {
  const directory = makeTemporaryDirectory('image');
  const engine = await findEngine(join(lastingCache, 'engine'), report);
  try {
    report(engine.description);
    const deployment = await prepare(engine, directory);
    const { run } = deployment;
    if (!engine.hasRegistry) {
      report('no registry: making stand-ins of the official images');
      await makeImages(engine, report);
    }
    await run('docker compose build');
    const size = "docker image inspect --format '{{.Size}}' studio-gateway:local";
    report(`built: ${(Number(await run(size)) / 1e6).toFixed(0)} MB`);
    try {
      await check(deployment);
    } catch (error) {
      process.stderr.write(await run('docker compose logs --tail 30').catch(String));
      throw error;
    } finally {
      await run('docker compose down --volumes');
    }
  } finally {
    await engine.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

try {
  await main();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
