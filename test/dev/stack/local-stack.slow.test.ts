import { providerDefinitions } from '../../../providers/provider-registry.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { StackDescription } from '../../../dev/stack/stack-file.ts';
import { isAlive } from '../../../dev/stack/process-identity.ts';
import { freePort } from '../../../dev/stack/free-port.ts';
import { loadSecrets } from '../../../dev/stack/secrets.ts';
import { claimPorts, readSettings } from '../../../dev/stack/settings.ts';
import { planStack, type StackPlan } from '../../../dev/stack/stack-plan.ts';
import { findTemporalCli } from '../../../dev/stack/temporal-cli.ts';
import { startTemporal } from '../../../dev/stack/temporal.ts';
import { newFolder } from '../../harness/folders.ts';
import { startHttpServer } from '../../harness/http-server.ts';
import { until } from '../../harness/until.ts';

const parts = ['API', 'POSTGRES', 'TEMPORAL', 'TEMPORAL_UI', 'SANDBOX'];
const anyPorts = Object.fromEntries(parts.map((part) => [`${part}_PORT`, '0']));

function startStack(dataDir: string, env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'stand-in', 'stack.ts')], {
    env: { ...process.env, ...anyPorts, DATA_DIR: dataDir, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  });
  return { process: child, output: () => output };
}

const newDataDir = (): string => join(newFolder(), 'data');

function describeStack(dataDir: string): StackDescription {
  return JSON.parse(readFileSync(join(dataDir, 'stack.json'), 'utf8'));
}

/** Starts a stack and waits until it is ready. */
async function startReady(dataDir: string, env: NodeJS.ProcessEnv = {}) {
  const run = startStack(dataDir, env);
  await until(() => run.output().includes('READY'));
  return run;
}

beforeAll(async () => {
  await findTemporalCli(); // May install it, outside a test's time limit.
});

describe('the local stack', () => {
  it('starts, prints its addresses, restarts processes that end, and stops without leftovers', async () => {
    const dataDir = newDataDir();
    const run = await startReady(dataDir);
    const stack = describeStack(dataDir);
    for (const file of ['stack.json', 'secrets.json']) {
      expect(statSync(join(dataDir, file)).mode & 0o777).toBe(0o600);
    }
    const names = ['api', 'postgres', 'sandbox', 'temporal', 'worker'];
    expect(Object.keys(stack.processes).toSorted()).toEqual(names);
    const answer = await fetch(stack.apiUrl);
    expect(await answer.text()).toBe(String(stack.processes['api']));
    const client = new Client({ connectionString: stack.databaseUrl });
    await client.connect();
    expect((await client.query('SELECT * FROM migrated')).rowCount).toBe(1);
    await client.end();

    const second = startStack(dataDir);
    await once(second.process, 'exit');
    expect(second.output()).toContain(`already running here (process ${run.process.pid})`);

    for (const name of ['api', 'postgres']) process.kill(stack.processes[name] ?? 0, 'SIGKILL');
    await until(() => run.output().split('is running again').length === 3);
    const now = describeStack(dataDir);
    for (const name of ['api', 'postgres', 'worker']) {
      expect(now.processes[name] === stack.processes[name], name).toBe(name === 'worker');
    }

    run.process.kill('SIGTERM');
    await once(run.process, 'exit');
    expect(Object.values(now.processes).filter(isAlive)).toEqual([]);
    for (const file of ['stack.json', 'lock.json'])
      expect(existsSync(join(dataDir, file))).toBe(false);
  });

  it('starts again with the same key and data after its supervisor was killed', async () => {
    const dataDir = newDataDir();
    const first = await startReady(dataDir);
    const before = describeStack(dataDir);
    first.process.kill('SIGKILL');
    await once(first.process, 'exit');
    // Another program now has the process id of the supervisor.
    const lock = join(dataDir, 'lock.json');
    const left = JSON.parse(readFileSync(lock, 'utf8')) as object;
    writeFileSync(lock, JSON.stringify({ ...left, supervisor: process.pid }));

    await startReady(dataDir);
    const after = describeStack(dataDir);
    expect(after).toMatchObject({ apiKey: before.apiKey, adminKey: before.adminKey });
    expect(Object.values(before.processes).filter(isAlive)).toEqual([]);
  });
});

describe('the local stack with another Temporal server', () => {
  it('uses the server that TEMPORAL_ADDRESS names, and starts none', async () => {
    const temporal = await startTemporal({ dataDir: null, port: await freePort(), uiPort: null });
    onTestFinished(() => temporal.stop());
    const dataDir = newDataDir();
    const run = await startReady(dataDir, { TEMPORAL_ADDRESS: temporal.address });
    const stack = describeStack(dataDir);
    expect(stack).toMatchObject({ temporalAddress: temporal.address, temporalUiUrl: null });
    expect(Object.keys(stack.processes)).not.toContain('temporal');
    run.process.kill('SIGTERM');
    await once(run.process, 'exit');
    expect(isAlive(temporal.pid)).toBe(true);
  });

  it('reports a server that does not respond', async () => {
    const run = startStack(newDataDir(), { TEMPORAL_ADDRESS: '127.0.0.1:9' });
    await once(run.process, 'exit');
    expect(run.output()).toContain(
      'cannot reach namespace default at TEMPORAL_ADDRESS 127.0.0.1:9',
    );
  });
});

function plan(env: NodeJS.ProcessEnv): StackPlan {
  const dataDir = newDataDir();
  mkdirSync(dataDir);
  return planStack({
    settings: readSettings({ ...env, DATA_DIR: dataDir }),
    ports: readSettings({}).ports,
    secrets: loadSecrets(dataDir),
    env,
    programs: { sandbox: 's', migrate: 'm', api: 'a', worker: 'w' },
  });
}

describe('the environment of the local stack', () => {
  it('points the providers at the sandbox while the user has no provider key', () => {
    const { api, sandbox } = plan({ SYNC_WAIT_MS: '5' });
    expect(api.env).toMatchObject({
      API_PORT: '4000',
      DATABASE_URL: expect.stringMatching(/^postgres:.*@127\.0\.0\.1:45432\/gateway$/),
      FAL_KEY: sandbox.env['SANDBOX_FAL_KEY'],
      FAL_QUEUE_URL: 'http://127.0.0.1:4100/fal/queue',
      FAL_JWKS_URL: 'http://127.0.0.1:4100/fal/.well-known/jwks.json',
      ALLOW_PRIVATE_NETWORK_ORIGINS: 'http://127.0.0.1:4100,http://127.0.0.1:4000',
      SYNC_WAIT_MS: '5',
    });
  });

  it('points only providers without a key of the user at the sandbox', () => {
    const keys = [...providerDefinitions.values()].map(({ key }) => [key, 'mine']);
    const own = Object.fromEntries(keys);
    const { api: withAll } = plan(own);
    expect(withAll.env).toMatchObject(own);
    for (const name of ['FAL_QUEUE_URL', 'ELEVENLABS_BASE_URL', 'ALLOW_PRIVATE_NETWORK_ORIGINS']) {
      expect(withAll.env[name]).toBeUndefined();
    }
    const { api, sandbox } = plan({ FAL_KEY: 'mine' });
    expect(api.env['FAL_QUEUE_URL']).toBeUndefined();
    expect(api.env).toMatchObject({
      ELEVENLABS_API_KEY: sandbox.env['SANDBOX_ELEVENLABS_KEY'],
      ELEVENLABS_BASE_URL: 'http://127.0.0.1:4100/elevenlabs',
      ALLOW_PRIVATE_NETWORK_ORIGINS: 'http://127.0.0.1:4100,http://127.0.0.1:4000',
    });
  });
});

describe('payload encryption in the local stack', () => {
  it('is off by default, and its key decrypts payloads from when it was on', () => {
    const { api, temporal } = plan({});
    expect(api.env).toMatchObject({
      PAYLOAD_KEYS: expect.stringMatching(/^local:[\w-]{43}$/),
      PAYLOAD_ENCRYPTION: 'false',
    });
    expect(temporal?.codecEndpoint).toBeNull();
  });

  it('is on if requested, and the web UI receives the address of the codec', () => {
    const { api, worker, temporal } = plan({ PAYLOAD_ENCRYPTION: 'true' });
    expect(api.env['PAYLOAD_ENCRYPTION']).toBe('true');
    expect(worker.env['PAYLOAD_KEYS']).toBe(api.env['PAYLOAD_KEYS']);
    const { codecEndpoint = '' } = temporal ?? {};
    expect(codecEndpoint).toMatch('http://127.0.0.1:4000/api/admin/v1/temporal/');
    expect(codecEndpoint).not.toContain(api.env['ADMIN_API_KEY']);
    expect(api.env['TEMPORAL_UI_ORIGINS']).toBe('http://127.0.0.1:8233,http://localhost:8233');
  });

  it('uses the user’s keys', () => {
    const { api, temporal } = plan({ PAYLOAD_KEYS: 'mine:x' });
    expect(api.env).toMatchObject({ PAYLOAD_KEYS: 'mine:x' });
    expect(api.env['PAYLOAD_ENCRYPTION']).toBeUndefined();
    expect(temporal?.codecEndpoint).toBeTypeOf('string');
  });
});

describe('the settings of the local stack', () => {
  it('name the variable of a port in use, one line each', async () => {
    const { port, close } = await startHttpServer(() => {});
    onTestFinished(close);
    const env = { ...anyPorts, API_PORT: String(port), SANDBOX_PORT: String(port) };
    const lines = ['API_PORT', 'SANDBOX_PORT'].map(
      (variable) =>
        `Port ${port} is in use: stop the program that uses it, or set ${variable} to another port (0 chooses a free one).`,
    );
    await expect(claimPorts(readSettings(env))).rejects.toThrow(lines.join('\n'));
  });

  it('may have port 0, which a free port replaces', async () => {
    const ports = Object.values(await claimPorts(readSettings(anyPorts)));
    expect(new Set(ports).size).toBe(5);
    expect(ports.every((port) => port > 0)).toBe(true);
  });

  it('are rejected if a port is invalid, with the variable’s name', () => {
    expect(() => readSettings({ API_PORT: '70000' })).toThrow(
      'API_PORT must be an integer from 0 to 65535 (received 70000)',
    );
  });
});
