/**
 * Compares the deployment files with the code, so that errors appear before a deployment. `sh
 * deploy/check.sh` checks their formats.
 */
import { providerDefinitions } from '../../providers/provider-registry.ts';
import { knownProviders } from '../../process/run-process.ts';
import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { parse } from 'yaml';
import { fixedInCompose, documentedSettings } from '../../dev/compose/settings.ts';
import { sandboxOptions } from '../../dev/sandbox/server.ts';
import { searchAttributes } from '../../domain/job-contract.ts';
import { loadConfig } from '../../platform/config.ts';
import { codecAccessToken, readPayloadKeys } from '../../platform/payload-codec.ts';
import { newFolder } from '../harness/folders.ts';
import { startHttpServer } from '../harness/http-server.ts';
import { variablesInCode } from '../harness/variables.ts';
import { readDashboard, readSelectors } from './expressions.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (file: string): string => readFileSync(root + file, 'utf8');

interface ComposeService {
  image: string;
  command?: string[];
  build?: { dockerfile: string };
  environment?: Record<string, string>;
  env_file?: { path: string }[];
  logging?: object;
  volumes?: string[];
  ports?: string[];
  depends_on?: Record<string, { condition: string; required?: boolean }>;
  healthcheck?: object;
  deploy?: { resources: { limits: { memory: string } } };
  profiles?: string[];
  restart?: string;
  extends?: { file: string; service: string };
}
interface Compose {
  services: Record<string, ComposeService>;
  volumes: Record<string, null>;
}
/** Reads `NAME=value` lines. */
function readEnv(file: string): Record<string, string> {
  const lines = readFileSync(resolve(root, file), 'utf8').split('\n');
  return Object.fromEntries(
    lines
      .filter((line) => /^[A-Z]/.test(line))
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
}

const secret = (seed: string): string => createHash('sha256').update(seed).digest('hex');
/** The lines that deploy/secrets.sh makes. */
const dotEnv: Record<string, string> = {
  ...Object.fromEntries(
    [...(/for name in ([^;]+);/.exec(read('deploy/secrets.sh'))?.[1] ?? '').matchAll(/\w+/g)].map(
      ([name]) => [name, secret(name)],
    ),
  ),
  PAYLOAD_KEYS: `made:${Buffer.from(secret('PAYLOAD_KEYS'), 'hex').toString('base64')}`,
  TEMPORAL_CODEC_WORD: 'word',
};

/** Interpolates `${NAME}`, `${NAME:-default}`, `${NAME:+instead}` and `${NAME:?why}` as Compose does, the inner ones first. */
function interpolate(text: string, env: Record<string, string>): string {
  const done = text.replaceAll(
    /\$\{(\w+)(?:(:-|:\?|:\+)([^${}]*))?\}/g,
    (_, name: string, operator?: string, rest = '') => {
      const value = env[name];
      if (operator === ':+') return value ? rest : '';
      if (value) return value;
      if (operator !== ':-') throw new Error(`${name} is not set: ${rest}`);
      return rest;
    },
  );
  return done === text ? text : interpolate(done, env);
}

/** Reads docker-compose.yml with a .env, which also reaches the services whose `env_file` names it. */
function composeWith(env: Record<string, string>): Compose {
  const lines = { ...dotEnv, ...readEnv('deploy/sandbox.env'), ...env };
  const parsed = parse(interpolate(read('docker-compose.yml'), lines), { merge: true }) as Compose;
  for (const service of Object.values(parsed.services)) {
    if (service.env_file?.some(({ path }) => path === '.env'))
      service.environment = { ...lines, ...service.environment };
    // YAML reads a port as a number.
    for (const [name, value] of Object.entries<unknown>(service.environment ?? {}))
      service.environment = { ...service.environment, [name]: String(value) };
  }
  return parsed;
}
const compose = composeWith({});
/** Services with programs of the gateway; the command line makes the first key. */
const gateways = Object.entries(compose.services).filter(
  ([name, { build, profiles = [] }]) => build && name !== 'first-key' && profiles[0] !== 'tools',
);
/** Variables that the code reads: the configuration, and the providers of chat by their names. */
const known = new Set([
  ...variablesInCode,
  ...knownProviders.chat.flatMap((name) => [
    `${name.toUpperCase()}_API_KEY`,
    `${name.toUpperCase()}_BASE_URL`,
  ]),
  'CHAT_UPSTREAMS',
  // The driver of Postgres reads it.
  'PGPASSWORD',
]);
const sandboxKnown = new Set(Object.keys(sandboxOptions.in.shape));

describe('deploy/secrets.sh', () => {
  it('creates every secret once, and never replaces one', () => {
    const file = join(newFolder(), '.env');
    const make = (): Record<string, string> => {
      execFileSync('sh', [`${root}deploy/secrets.sh`, file]);
      return readEnv(file);
    };
    writeFileSync(file, 'KEY_PEPPER=mine\nFAL_KEY=also-mine');
    const made = make();
    expect(made).toMatchObject({ KEY_PEPPER: 'mine', FAL_KEY: 'also-mine' });
    const names = [...Object.keys(dotEnv), 'FAL_KEY'];
    expect(readPayloadKeys(made['PAYLOAD_KEYS'] ?? '')).toHaveLength(1);
    expect(made['TEMPORAL_CODEC_WORD']).toBe(codecAccessToken(made['ADMIN_API_KEY'] ?? ''));
    expect(Object.keys(made).toSorted()).toEqual(names.toSorted());
    expect(new Set(Object.values(made)).size).toBe(names.length);
    expect(make()).toEqual(made);
  });

  it('points the providers at the sandbox, except those that the file configures', () => {
    const file = join(newFolder(), '.env');
    writeFileSync(file, 'FAL_KEY=mine\n');
    execFileSync('sh', [`${root}deploy/secrets.sh`, '--sandbox', file]);
    const sandbox = { ...readEnv('deploy/sandbox.env'), FAL_KEY: 'mine' };
    expect(readEnv(file)).toMatchObject({ ...sandbox, COMPOSE_PROFILES: 'sandbox' });
  });
});

describe('docker-compose.yml', () => {
  it('gives each process of the gateway a configuration that it starts with', () => {
    expect(gateways.map(([name]) => name).toSorted()).toEqual(
      ['api-1', 'api-2', 'migrations', 'sandbox', 'worker-1', 'worker-2'].toSorted(),
    );
    for (const [name, service] of gateways) {
      const env = service.environment ?? {};
      const readBy = name === 'sandbox' ? sandboxKnown : known;
      const unknown = Object.keys(env).filter(
        (variable) => !readBy.has(variable) && !(variable in dotEnv),
      );
      expect(unknown, name).toEqual([]);
      if (name !== 'sandbox') expect(loadConfig(knownProviders, env).STORAGE_DRIVER).toBe('s3');
      expect(existsSync(root + (service.command?.[1] ?? 'nothing')), name).toBe(true);
      expect(service.build?.dockerfile).toBe('deploy/Dockerfile');
    }
  });

  it('passes every documented setting of .env to every process', () => {
    const settings = documentedSettings();
    expect(settings.length).toBeGreaterThan(100);
    expect(settings.filter((name) => !known.has(name))).toEqual([]);
    const given = Object.fromEntries(settings.map((name) => [name, `set-${name}`]));
    const { services } = composeWith(given);
    for (const name of ['api-1', 'api-2', 'worker-1', 'worker-2', 'migrations', 'first-key']) {
      const env = services[name]?.environment ?? {};
      expect(
        settings.filter((setting) => env[setting] !== given[setting]),
        name,
      ).toEqual(settings.filter((setting) => fixedInCompose.includes(setting)));
    }
    for (const name of fixedInCompose) {
      expect(read('docs/deployment.md')).toContain(`\`${name}\``);
    }
  });

  const local = (port: number) =>
    [
      `:${port} :7070 http://localhost:${port} http://localhost:7070`,
      `127.0.0.1:${port}:${port} 127.0.0.1:7070:7070 80 443`,
    ] as const;
  it.each([
    [{}, ...local(4000)],
    [{ API_PORT: '5000' }, ...local(5000)],
    [
      { DOMAIN: 'example.com' },
      'example.com storage.example.com https://example.com https://storage.example.com',
      '127.0.0.1:4000:4000 127.0.0.1:7070:7070 80:80 443:443',
    ],
  ])(
    'serves a domain over TLS if one is named, and plain HTTP otherwise: %j',
    (env, urls, open) => {
      const { services } = composeWith(env);
      const { environment = {}, ports } = services['load-balancer'] ?? {};
      const { PUBLIC_BASE_URL: api, S3_PUBLIC_BASE_URL: store } =
        services['api-1']?.environment ?? {};
      const addresses = ['SITE_ADDRESS', 'STORAGE_ADDRESS'];
      const listens = addresses.map((name) => environment[name]);
      expect([...listens, api, store].join(' ')).toBe(urls);
      expect(ports?.join(' ')).toBe(open);
      for (const name of addresses) expect(read('deploy/Caddyfile')).toContain(`{$${name}:`);
    },
  );

  it('selects the sandbox with variables that exist', () => {
    const variables = Object.keys(readEnv('deploy/sandbox.env'));
    expect(variables.filter((name) => !known.has(name))).toEqual([]);
    for (const { key, sandbox } of providerDefinitions.values()) {
      if (sandbox === null) continue;
      const required = [key, ...Object.keys(sandbox('http://sandbox:4100'))];
      expect(variables).toEqual(expect.arrayContaining(required));
      expect(readEnv('deploy/sandbox.env')).toMatchObject(sandbox('http://sandbox:4100'));
      for (const [name, service] of gateways) {
        if (name !== 'sandbox')
          expect(Object.keys(service.environment ?? {})).toEqual(expect.arrayContaining(required));
      }
    }
    const preset = sandboxOptions.parse({});
    expect(readEnv('deploy/sandbox.env')).toMatchObject({
      FAL_KEY: preset.falKey,
      ELEVENLABS_API_KEY: preset.elevenLabsKey,
      OPENAI_IMAGES_API_KEY: preset.openAiKey,
      SANDBOX_CHAT_KEY: preset.chatKey,
    });
  });

  it('mounts files that exist, and depends on services that exist', () => {
    for (const [name, service] of Object.entries(compose.services)) {
      for (const volume of service.volumes ?? []) {
        const [source = '', target] = volume.split(':');
        // Without a name: the container's own.
        if (target === undefined) continue;
        const isFile = source.startsWith('./');
        const found = isFile ? existsSync(root + source) : source in compose.volumes;
        expect(found, `${name}: ${source}`).toBe(true);
      }
      for (const [other, { condition }] of Object.entries(service.depends_on ?? {})) {
        expect(compose.services, name).toHaveProperty(other);
        const healthy = compose.services[other]?.healthcheck ?? condition !== 'service_healthy';
        expect(healthy, `${name} waits for ${other}`).toBeTruthy();
      }
    }
  });

  it.each([
    [{}, []],
    [{ DATABASE_URL: 'postgres://db' }, []],
    [
      { TEMPORAL_ADDRESS: 'cloud:7233' },
      ['temporal-schema', 'temporal', 'temporal-namespace', 'temporal-ui'],
    ],
    [
      { DATABASE_URL: 'postgres://db', TEMPORAL_ADDRESS: 'cloud:7233', S3_ENDPOINT: 'https://s3' },
      [
        'postgres',
        'temporal-schema',
        'temporal',
        'temporal-namespace',
        'temporal-ui',
        'storage',
        'storage-bucket',
      ],
    ],
  ])('starts no bundled server that .env replaces: %j', (env, replaced) => {
    const bundled = parse(read('deploy/bundled.yml')) as Compose;
    const { services } = composeWith(env);
    const isReplaced = ({ extends: base }: ComposeService): boolean =>
      base !== undefined && bundled.services[base.service]?.profiles !== undefined;
    const names = Object.entries(services).flatMap(([name, service]) =>
      isReplaced(service) ? name : [],
    );
    expect(names).toEqual(replaced);
    for (const [name, service] of Object.entries(services)) {
      if (isReplaced(service)) continue;
      for (const [other, need] of Object.entries(service.depends_on ?? {}))
        if (names.includes(other)) expect(need.required, `${name} needs ${other}`).toBe(false);
    }
  });

  it('registers the search attributes of jobs with their types, and logs it', () => {
    const script = read('deploy/temporal/create-namespace.sh');
    const registered = [...script.matchAll(/--name (\w+) --type (\w+)/g)].map(
      ([, ...pair]) => pair,
    );
    const types = { KEYWORD: 'Keyword', KEYWORD_LIST: 'KeywordList' };
    const defined = Object.values(searchAttributes).map(({ name, type }) => [name, types[type]]);
    expect(registered.toSorted()).toEqual(defined.toSorted());
    for (const page of ['docs/deployment.md', 'docs/operators.md']) {
      for (const [name] of defined) expect(read(page), page).toContain(`\`${name}\``);
    }
  });

  it('limits the memory and the logs of every service', () => {
    const short = ['temporal-schema', 'temporal-namespace', 'storage-bucket', 'temporal-cli'];
    const services = Object.entries(compose.services);
    const unlimited = services
      .filter(([name, service]) => !short.includes(name) && !service.deploy?.resources.limits)
      .map(([name]) => name);
    expect(unlimited).toEqual([]);
    const limits = { driver: 'local', options: { 'max-size': '20m', 'max-file': '5' } };
    for (const [name, { logging }] of services) expect(logging, name).toEqual(limits);
  });

  it('needs as much memory as docs/deployment.md states', () => {
    const megabytes = Object.values(compose.services)
      .filter(({ profiles, restart }) => profiles === undefined && restart === 'unless-stopped')
      .map(({ deploy: limits }) => limits?.resources.limits.memory ?? '')
      .reduce((sum, text) => sum + Number.parseInt(text, 10) * (text.endsWith('G') ? 1024 : 1), 0);
    expect(read('docs/deployment.md')).toContain(`${(megabytes / 1024).toFixed(1)} GB`);
  });

  it('uses the same ports as the load balancer and Prometheus', () => {
    const { environment } = compose.services['api-1'] ?? {};
    const caddyfile = read('deploy/Caddyfile');
    for (const name of ['api-1', 'api-2']) {
      expect(caddyfile).toContain(`${name}:${environment?.['API_PORT']}`);
    }
    const { scrape_configs: jobs } = parse(read('deploy/prometheus/prometheus.yml')) as {
      scrape_configs: { static_configs: { targets: string[] }[] }[];
    };
    const targets = jobs.flatMap((job) => job.static_configs.flatMap((one) => one.targets));
    const metricsPort = /METRICS_PORT=(\d+)/.exec(read('deploy/Dockerfile'))?.[1];
    for (const target of targets) {
      const [host = '', port] = target.split(':');
      expect(compose.services).toHaveProperty(host);
      if (host !== 'temporal') expect(port).toBe(metricsPort);
    }
  });
});

it.each([
  [200, true],
  [503, false],
])('deploy/healthcheck.sh treats status %i as healthy: %s', async (status, healthy) => {
  const paths: (string | undefined)[] = [];
  const { port, close } = await startHttpServer(({ url }, response) => {
    paths.push(url);
    response.writeHead(status).end('a body');
  });
  onTestFinished(close);
  const args = [`${root}deploy/healthcheck.sh`, String(port), '/readyz'];
  const answered = await promisify(execFile)('bash', args).then(
    () => true,
    () => false,
  );
  expect([answered, paths]).toEqual([healthy, ['/readyz']]);
});

it('deploy/upgrade.sh migrates first, then replaces one process after the other', () => {
  const directory = newFolder();
  cpSync(`${root}deploy/upgrade.sh`, join(directory, 'deploy', 'upgrade.sh'));
  writeFileSync(join(directory, '.env'), 'GATEWAY_IMAGE=registry.example.com/gateway:2\n');
  const docker = '#!/bin/sh\necho "$@" >>"$(dirname "$0")/calls"\n';
  writeFileSync(join(directory, 'docker'), docker, { mode: 0o755 });
  const env = { ...process.env, PATH: `${directory}:${process.env['PATH']}` };
  execFileSync('sh', [join(directory, 'deploy', 'upgrade.sh')], { env });
  const calls = readFileSync(join(directory, 'calls'), 'utf8').trim().split('\n');
  const [migrating, replacing] = [calls.slice(0, 3), calls.slice(3)];
  const run = 'compose run --rm --no-deps migrations';
  expect(migrating).toEqual(['compose version', 'compose pull --quiet api-1', run]);
  const replaced = ['worker-1', 'worker-2', 'api-1', 'api-2'];
  expect(replacing.slice(0, 4).map((call) => call.split(' ').at(-1))).toEqual(replaced);
  expect(replacing.slice(4)).toEqual(['compose up --detach --no-build --wait --wait-timeout 300']);
  // `--wait` takes the end of a service that runs once for a failure, unless another service waits for that end.
  const awaited = Object.values(compose.services).flatMap(({ depends_on: needed = {} }) =>
    Object.keys(needed).filter(
      (name) => needed[name]?.condition === 'service_completed_successfully',
    ),
  );
  const once = Object.entries(compose.services).filter(
    ([, { restart, profiles }]) => restart !== 'unless-stopped' && profiles === undefined,
  );
  expect(once.length).toBeGreaterThan(3);
  expect(once.map(([name]) => name).filter((name) => !awaited.includes(name))).toEqual([]);
});

describe('the Dockerfiles', () => {
  const dockerfile = read('deploy/Dockerfile');
  const copiedIn = (text: string): string[] => [
    ...new Set(
      [...text.matchAll(/^COPY (?!--)(.+) \S+$/gm)].flatMap(([, sources = '']) =>
        sources.split(' '),
      ),
    ),
  ];
  const copied = copiedIn(dockerfile);
  const stages = new Map(
    dockerfile
      .split(/^FROM /m)
      .slice(1)
      .map((stage) => [/ AS (\w+)/.exec(stage)?.[1], stage]),
  );
  const [gateway = '', sandbox = ''] = ['build', 'sandbox'].map((name) => stages.get(name));

  it.each([
    // Workflows are bundled by their path, not imported.
    ['the gateway', gateway, ['api', 'worker', 'clients/cli', 'workflows']],
    ['the sandbox', sandbox, ['dev/sandbox']],
  ])('copy every folder that their programs import, and no other: %s', (_name, stage, programs) => {
    const folders = new Set(programs);
    for (const folder of folders) {
      for (const file of readdirSync(root + folder, { recursive: true }).map(String)) {
        if (!file.endsWith('.ts')) continue;
        const source = `${folder}/${file}`;
        for (const [, path = ''] of read(source).matchAll(/from '(\.\.\/[^']+\.ts)'/g)) {
          const [top = '', inner = ''] = join(source, '..', path).split('/');
          folders.add(top === 'clients' || top === 'dev' ? `${top}/${inner}` : top);
        }
      }
    }
    // A copied TypeScript file stands for its folder.
    const held = new Set(
      copiedIn(stage)
        .filter((path) => path.endsWith('.ts') || !path.includes('.'))
        .map((path) => (path.endsWith('.ts') ? dirname(path) : path)),
    );
    expect([...held].toSorted()).toEqual([...folders].toSorted());
  });

  it('copy every file that the replay imports', () => {
    const held = ['build', 'replay'].flatMap((name) => copiedIn(stages.get(name) ?? ''));
    const files = new Set(readdirSync(`${root}dev/replay`).map((name) => `dev/replay/${name}`));
    for (const file of files) {
      expect(
        held.some((path) => file === path || file.startsWith(`${path}/`)),
        file,
      ).toBe(true);
      for (const [, other = ''] of read(file).matchAll(/(?:from|import) '(\.[^']+\.ts)'/g)) {
        files.add(join(file, '..', other));
      }
    }
    expect(files.size).toBeGreaterThan(10);
  });

  it('contain the files that scripts and health checks name', () => {
    const scripts = readdirSync(`${root}deploy`).filter((name) => name.endsWith('.sh'));
    const texts = [...scripts.map((name) => `deploy/${name}`), 'docker-compose.yml'].map(read);
    const named = texts.flatMap((text) => [...text.matchAll(/\/app\/([\w./-]+)/g)]);
    expect(named.length).toBeGreaterThan(3);
    for (const [, path = ''] of named) expect(existsSync(root + path), path).toBe(true);
  });

  it('use only files that .dockerignore includes, and variables that exist', () => {
    const admitted = read('deploy/Dockerfile.dockerignore')
      .split('\n')
      .filter((line) => line.startsWith('!'))
      .map((line) => line.slice(1));
    const isIn = (path: string, folder: string): boolean =>
      path === folder || path.startsWith(`${folder}/`);
    expect(copied.filter((path) => !admitted.some((folder) => isIn(path, folder)))).toEqual([]);
    expect(admitted.filter((folder) => !copied.some((path) => isIn(path, folder)))).toEqual([]);
    for (const path of copied) expect(existsSync(root + path), path).toBe(true);
    const env = [...dockerfile.matchAll(/^(?:ENV| {2})\s*([A-Z_]+)=/gm)].map(([, name]) => name);
    expect(env.length).toBeGreaterThan(3);
    const admittedNames = new Set([...known, 'PATH', 'NODE_OPTIONS', 'MALLOC_ARENA_MAX']);
    expect(env.filter((name = '') => !admittedNames.has(name))).toEqual([]);
  });

  it('use the project’s version of Node, and do not run as root', () => {
    const { dependencies } = JSON.parse(read('dev/package.json')) as {
      dependencies: Record<string, string>;
    };
    expect(dockerfile).toContain(`NODE_VERSION=${dependencies['node']}\n`);
    expect(dockerfile.match(/^USER 1000:1000$/gm)).toHaveLength(3);
  });
});

it('the dashboard selects by its variables, and by no data source of its own', async () => {
  const { panels, templating } = await readDashboard();
  expect(templating.list.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['datasource', 'namespace', 'provider', 'model']),
  );
  const targets = panels.flatMap((panel) => panel.targets);
  for (const { datasource } of [...panels, ...templating.list, ...targets]) {
    if (datasource) expect(datasource.uid).toBe('${datasource}');
  }
  for (const { expr } of targets) {
    for (const { name, labels } of readSelectors(expr)) expect(labels, name).toContain('namespace');
  }
  const used = [...JSON.stringify(targets).matchAll(/\$(\w+)/g)].map(([, name = '']) => name);
  const variables = [...templating.list.map(({ name }) => name), '__rate_interval'];
  expect(used.filter((name) => !variables.includes(name))).toEqual([]);
  expect(variables.filter((name) => name !== 'datasource' && !used.includes(name))).toEqual([]);
});

describe('the Helm chart', () => {
  const template = read('deploy/helm/templates/config.yaml');
  const values = read('deploy/helm/values.yaml');

  it('sets variables that exist, and requires secrets that exist', () => {
    const set = [...template.matchAll(/^ {2}([A-Z][A-Z0-9_]+):/gm)].map(([, name = '']) => name);
    const [, comment = ''] =
      /Together they\n# must contain ([^]*?)\nsecretNames/.exec(values) ?? [];
    const secrets = [...comment.matchAll(/\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b/g)].map(([name]) => name);
    expect(set.length + secrets.length).toBeGreaterThan(15);
    expect([...set, ...secrets].filter((name) => !known.has(name))).toEqual([]);
  });

  it('contains the alerts of deploy/prometheus, not a copy of them', () => {
    expect(readlinkSync(`${root}deploy/helm/alerts.yml`)).toBe('../prometheus/alerts.yml');
  });
});
