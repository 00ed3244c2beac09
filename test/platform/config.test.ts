import { knownProviders } from '../../process/run-process.ts';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseDsn } from 'slonik';
import { describe, expect, it } from 'vitest';
import { constantLimits } from '../../platform/config-variables.ts';
import { loadConfig, type Config } from '../../platform/config.ts';
import {
  formatSlonikUrl,
  parseDatabaseUrl,
  type DatabaseAddress,
} from '../../platform/database-url.ts';
import { connectionOptions } from '../../platform/temporal-connection.ts';
import { listenHost } from '../../process/metrics-server.ts';
import { publicBaseUrl } from '../../process/services.ts';
import { runProgram } from '../harness/programs.ts';
import { variablesInCode } from '../harness/variables.ts';

const load = (env: Record<string, string | undefined>) => loadConfig(knownProviders, env);
const secret = 'kE3vR9xQ2mN7pL5sT8wY1zB4cD6fG0hJ';
const good = {
  DATABASE_URL: 'postgres://user:pass@127.0.0.1:5432/gateway',
  TEMPORAL_ADDRESS: '127.0.0.1:7233',
  STORAGE_SECRET: `s${secret}`,
  KEY_PEPPER: `k${secret}`,
  WEBHOOK_SECRET: `w${secret}`,
  WEBHOOK_SIGNING_SECRET: `g${secret}`,
  ADMIN_API_KEY: `a${secret}`,
};

describe('a configuration', () => {
  it('is read with defaults and types', () => {
    expect(load(good)).toMatchObject({ RATE_LIMIT_PER_MINUTE: 60, SYNC_WAIT_MS: 60_000 });
    expect(load({ ...good, SYNC_WAIT_MS: '5' }).SYNC_WAIT_MS).toBe(5);
  });

  it.each(Object.keys(good))('without %s is rejected with its name', (name) => {
    for (const value of [undefined, '']) {
      expect(() => load({ ...good, [name]: value })).toThrow(`${name} is required`);
    }
  });

  const store = { STORAGE_DRIVER: 's3', S3_ENDPOINT: 'https://s3.example', S3_BUCKET: 'media' };
  const s3 = { ...good, ...store };

  it('lists all missing settings of the s3 storage', () => {
    expect(() => load(s3)).toThrow(
      'configuration: S3_REGION is required by STORAGE_DRIVER=s3; ' +
        'S3_ACCESS_KEY_ID is required by S3_CREDENTIALS=keys; ' +
        'S3_SECRET_ACCESS_KEY is required by S3_CREDENTIALS=keys',
    );
    const whole = { S3_REGION: 'eu', S3_ACCESS_KEY_ID: 'id', S3_SECRET_ACCESS_KEY: 'key' };
    expect(load({ ...s3, ...whole }).STORAGE_DRIVER).toBe('s3');
  });

  it('needs no keys of the store if AWS issues its credentials', () => {
    const aws = { ...s3, S3_REGION: 'eu', S3_CREDENTIALS: 'aws' };
    expect(load(aws).S3_CREDENTIALS).toBe('aws');
  });

  it.each([
    ['WORKER_DEPLOYMENT_NAME', 'WORKER_BUILD_ID'],
    ['TEMPORAL_TLS_CERT_PATH', 'TEMPORAL_TLS_KEY_PATH'],
    ['TEMPORAL_TLS_KEY_PATH', 'TEMPORAL_TLS_CERT_PATH'],
  ])('with %s is rejected without %s', (name, needed) => {
    expect(() => load({ ...good, [name]: 'x' })).toThrow(
      `configuration: ${needed} is required by ${name}`,
    );
  });

  it.each([
    { TEMPORAL_API_KEY: 'key' },
    { TEMPORAL_TLS_CA_PATH: '/dev/null' },
    { TEMPORAL_TLS_CERT_PATH: '/dev/null', TEMPORAL_TLS_KEY_PATH: '/dev/null' },
  ])('with %j connects to Temporal over TLS', async (env) => {
    expect(await connectionOptions(load({ ...good, ...env }))).toHaveProperty('tls');
  });

  it.each(Object.entries(constantLimits))('changes the constant %s in tests only', (name, type) => {
    const constant = type.parse(undefined);
    const settings = { ...good, [name]: String(constant - 1) };
    expect(load({ ...settings, NODE_ENV: 'test' })).toMatchObject({ [name]: constant - 1 });
    expect(load({ ...settings, NODE_ENV: 'production' })).toMatchObject({ [name]: constant });
    expect(load(settings)).toMatchObject({ [name]: constant });
  });

  const integer = (min: number, max: number) => `must be an integer from ${min} to ${max}`;
  const webUrl = 'must be an http(s) URL without credentials, query or fragment';
  const origins = 'must be origins such as https://studio.example, separated by commas';
  const delays = 'must be at most 50 integers from 0 to 86400000, separated by commas';
  it.each([
    ['TEMPORAL_ADDRESS', 'http://localhost:7233', 'must be host:port'],
    ['RATE_LIMIT_PER_MINUTE', '0', integer(1, 100_000_000)],
    ['SYNC_WAIT_MS', 'soon', integer(0, 600_000)],
    ['SYNC_WAIT_MS', '1e3', integer(0, 600_000)],
    ['DRAIN_DELAY_MS', '25001', integer(0, 25_000)],
    ['USD_PER_CREDIT', '0', 'must be a number from 0.000001 to 1000000'],
    ['USD_PER_CREDIT', '1e-300', 'must be a number from 0.000001 to 1000000'],
    ['OTEL_TRACES_SAMPLER_ARG', '2', 'must be a number from 0 to 1'],
    ['PAYLOAD_ENCRYPTION', 'yes', 'must be one of true, false'],
    ['STORAGE_DRIVER', 'gcs', 'must be one of local, s3'],
    ['WEBHOOK_RETRY_DELAYS_MS', '5000,soon', delays],
    ['WEBHOOK_RETRY_DELAYS_MS', ',', delays],
    ['S3_BUCKET', '../other/bucket', 'must be a bucket name'],
    ['S3_ENDPOINT', 's3.example', webUrl],
    ['PUBLIC_BASE_URL', 'localhost:4000', webUrl],
    ['FAL_QUEUE_URL', 'localhost:4000', webUrl],
    ['CORS_ORIGINS', 'studio.example', origins],
    ['ALLOW_PRIVATE_NETWORK_ORIGINS', 'localhost:4100', origins],
    ['TEMPORAL_UI_ORIGINS', 'http://127.0.0.1:8233,8234', origins],
  ])('rejects %s=%s, and names what is allowed and received', (name, value, allowed) => {
    const loading = () => load({ ...good, [name]: value });
    expect(loading).toThrow(`configuration: ${name} is wrong: ${allowed}`);
    expect(loading).toThrow(`(received ${JSON.stringify(value)}`);
  });

  it.each([
    ['PUBLIC_BASE_URL', 'https://user:hunter2@gateway.example'],
    ...[
      'mysql://user:hunter2@127.0.0.1/db',
      'user:hunter2@127.0.0.1',
      ...[
        'p@hunter2#w',
        'hunter2/w',
        'hunter2?w',
        'hunter2%rd',
        'hunter2%',
        'hunter2 w',
        '%FFhunter2',
      ].map((password) => `postgres://user:${password}@127.0.0.1/db`),
      'postgres://user:hunter2@127.0.0.1:hunter2/db',
      'postgres://user:hunter2@hunter2.a,hunter2.b/db',
      'postgres://user:hunter2@/db',
    ].flatMap((value) => [
      ['DATABASE_URL', value],
      ['DATABASE_LISTEN_URL', value],
    ]),
    ['OTEL_EXPORTER_OTLP_HEADERS', 'authorization=hunter2%'],
    ['OTEL_RESOURCE_ATTRIBUTES', 'hunter2'],
  ])('rejects %s without the credentials in its value', (name, value) => {
    const loading = () => load({ ...good, [name]: value });
    expect(loading).toThrow(`configuration: ${name} is wrong: must be `);
    expect(loading).not.toThrow('hunter2');
  });

  it.each([
    ['sslmode=maybe', 'sslmode must be one of disable, no-verify, prefer, require, verify-'],
    ['sslrootcert=', 'sslrootcert must be a path'],
    ['sslrootcert=/nowhere', 'names a certificate file that cannot be read (ENOENT)'],
  ])('rejects the TLS setting %s of a database', (query, fault) => {
    const DATABASE_URL = `${good.DATABASE_URL}?${query}`;
    expect(() => load({ ...good, DATABASE_URL })).toThrow(`DATABASE_URL is wrong: ${fault}`);
  });
});

it.each<[string, Partial<DatabaseAddress>]>([
  ['postgres://u:p%40%2F%23%25@h:6/d%20b\n', { password: 'p@/#%', port: 6, database: 'd b' }],
  ['postgres://u@h/d', { host: 'h', port: 5432, user: 'u', ssl: false }],
  ['postgres://u:p@ss@h/d', { host: 'h', password: 'p@ss' }],
  ['postgres://u:p@[::1]:6/d', { host: '::1', port: 6 }],
  ['postgres://u:p@%2Frun%2Fpg/d', { host: '/run/pg', database: 'd' }],
  ['postgresql:///d?host=/run/pg&port=6', { host: '/run/pg', port: 6, database: 'd' }],
  ['postgres://u:p@h/d?sslmode=verify-full', { ssl: {} }],
  ['postgres://u:p@h/d?sslmode=no-verify', { ssl: { rejectUnauthorized: false } }],
])('the address of %j is the same for the driver and for slonik', (url, expected) => {
  const { ssl, ...address } = parseDatabaseUrl(url);
  expect({ ssl, ...address }).toMatchObject(expected);
  expect(parseDatabaseUrl(formatSlonikUrl({ ssl, ...address }))).toEqual({
    ...address,
    options: expect.stringContaining(address.options),
    ssl: false,
  });
  const { databaseName, username, ...rest } = parseDsn(formatSlonikUrl({ ssl, ...address }));
  const { user, database, application_name: _name, ...others } = address;
  expect({ user: username, database: databaseName, ...rest }).toMatchObject(
    JSON.parse(JSON.stringify({ user, database, ...others })),
  );
});

it.each([
  ['127.0.0.1', 'http://127.0.0.1:4000'],
  ['::1', 'http://[::1]:4000'],
  ['gateway.local', 'http://gateway.local:4000'],
])('without PUBLIC_BASE_URL, an API on %s is reached at %s', (API_HOST, url) => {
  expect(publicBaseUrl(load({ ...good, API_HOST }))).toBe(url);
});

it('a server on :: is reached over IPv6 and IPv4', async () => {
  const server = createServer((_request, response) => response.end('here'));
  await once(server.listen({ port: 0, ...listenHost('::') }), 'listening');
  const { port, address } = server.address() as AddressInfo;
  // A machine without IPv6 has only the address 0.0.0.0.
  for (const host of address === '::' ? ['127.0.0.1', '[::1]'] : ['127.0.0.1']) {
    expect(await (await fetch(`http://${host}:${port}`)).text()).toBe('here');
  }
  server.close();
});

const readUpstream = (name: string) => (config: Config) => config.CHAT_UPSTREAMS[name]?.apiKey;

/** A random key, as `openssl rand -base64 32` prints it. */
const payloadKey = 'kE3vR9xQ2mN7pL5sT8wY1zB4cD6fG0hJaU+o/iXqZeM=';

describe('a secret', () => {
  const secrets = Object.keys(good).slice(2);
  const weak = [
    ['31 characters', secret.slice(1)],
    ['spaces to fill up', 'kE3vR9xQ'.padEnd(40, ' ')],
    ['digits in order', '1234567'.repeat(8)],
    ['change-me', 'change-me'.padEnd(40, '0')],
    ['CHANGEME', 'CHANGEME'.repeat(5)],
    ['secret', 'secret-secret-secret-secret-secret-secret'],
    ['password', 'password-password-password-password-1234'],
    ['an example', 'example-key-example-key-example-key-1234'],
    ['a placeholder', '<openssl rand -base64 32 gives one here>'],
    ['a variable that was not set in', '${WEBHOOK_SECRET:-set-this-to-something-random}'],
    ['your own here', 'your-secret-here-your-secret-here-0123456789'],
  ];
  it.each(weak)('is rejected by its name and not shown if it is %s', (_what, value) => {
    for (const name of secrets) {
      const loading = () => load({ ...good, [name]: value });
      expect(loading).toThrow(new RegExp(`^configuration: ${name} is (required|wrong)`));
      if (value.trim().length >= 8) expect(loading).not.toThrow(value);
    }
  });

  it.each(secrets)('must differ from the other secrets: %s', (name) => {
    const other = name === 'KEY_PEPPER' ? 'WEBHOOK_SECRET' : 'KEY_PEPPER';
    const loading = () => load({ ...good, [name]: good[other as keyof typeof good] });
    expect(loading).toThrow('is wrong: must differ from');
    expect(loading).not.toThrow(good.KEY_PEPPER);
  });

  it.each([
    ['FAL_KEY', 'short'],
    ['ELEVENLABS_API_KEY', 'short'],
    ['OPENAI_IMAGES_API_KEY', 'short'],
    ['SANDBOX_CHAT_KEY', 'short'],
    ['PAYLOAD_KEYS', `one:${payloadKey},one:${payloadKey}`],
  ])('of a provider or codec is rejected if it is malformed: %s', (name, value) => {
    const loading = () => load({ ...good, [name]: value });
    expect(loading).toThrow(`configuration: ${name} is wrong`);
    expect(loading).not.toThrow(value.length > 8 ? value : /^$/);
  });

  const carried: [string, (key: string) => object, (config: Config) => unknown][] = [
    ...['FAL_KEY', 'ELEVENLABS_API_KEY', 'OPENAI_IMAGES_API_KEY'].map(
      (name): (typeof carried)[number] => [
        name,
        (key) => ({ [name]: key }),
        (config) => config.PROVIDER_VARIABLES[name],
      ],
    ),
    ...(
      [
        'SANDBOX_CHAT_KEY',
        'S3_ACCESS_KEY_ID',
        'S3_SECRET_ACCESS_KEY',
        'TEMPORAL_API_KEY',
        'ADMIN_API_KEY',
        'KEY_PEPPER',
        'WEBHOOK_SIGNING_SECRET',
      ] as const
    ).map((name): (typeof carried)[number] => [
      name,
      (key) => ({ [name]: key }),
      (config) => config[name],
    ]),
    ['OPENAI_API_KEY', (key) => ({ OPENAI_API_KEY: key }), readUpstream('openai')],
    [
      'CHAT_UPSTREAMS',
      (key) => ({ CHAT_UPSTREAMS: JSON.stringify({ own: { apiKey: key } }) }),
      readUpstream('own'),
    ],
  ];
  const key = 'pK9-vR2_xQ7.mN4+pL1/sT6=wY3zB8cD';
  const odd = [
    `${key}\n`,
    `${key}\r\n`,
    `\uFEFF${key}`,
    `${key}\t`,
    ` ${key}`,
    `"${key}"`,
    `'${key}'\n`,
  ];
  it.each(carried)('is read without what files add to it: %s', (_name, env, read) => {
    for (const value of odd) expect(read(load({ ...good, ...env(value) }))).toBe(key);
  });
  it.each(carried)('is rejected by its name if no header can carry it: %s', (name, env) => {
    for (const character of ['\n', '\0', ' ', 'é', '\u200B', '“']) {
      const value = `${key.slice(0, 9)}${character}${key.slice(9)}`;
      const loading = () => load({ ...good, ...env(value) });
      expect(loading).toThrow(`configuration: ${name} is wrong: `);
      expect(loading).not.toThrow(key.slice(9));
    }
  });

  it('of the codec is required if payload encryption is on', () => {
    expect(() => load({ ...good, PAYLOAD_ENCRYPTION: 'true' })).toThrow(
      'PAYLOAD_KEYS is required by PAYLOAD_ENCRYPTION=true',
    );
    const sealed = load({ ...good, PAYLOAD_KEYS: `one:${payloadKey}` });
    expect(sealed).toMatchObject({ PAYLOAD_ENCRYPTION: true, PAYLOAD_KEYS: [{ id: 'one' }] });
    const off = { ...good, PAYLOAD_KEYS: `one:${payloadKey}`, PAYLOAD_ENCRYPTION: 'false' };
    expect(load(off).PAYLOAD_ENCRYPTION).toBe(false);
  });
});

it.each(['api', 'worker'])(
  'a process with a wrong configuration stops with a one-line message: %s',
  async (script) => {
    const { status, stderr } = await runProgram(`${script}/main.ts`, [], {
      ...good,
      KEY_PEPPER: 'short',
    });
    const line = 'configuration: KEY_PEPPER is wrong: must have at least 32 characters\n';
    expect([status, stderr]).toEqual([78, line]);
  },
);

it('docs/configuration.md documents every variable, and none that does not exist', async () => {
  const root = new URL('../../', import.meta.url);
  const text = await readFile(new URL('docs/configuration.md', root), 'utf8');
  const documented = [...text.matchAll(/^\| (`[A-Z][^|]*)\|/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`([A-Z][A-Z0-9_]+)`/g)].map(([, name = '']) => name),
  );
  const ofTheStack = [...text.matchAll(/^\| \*`([A-Z][A-Z0-9_]+)`/gm)].map(([, name]) => name);
  expect(variablesInCode.filter((name) => !documented.includes(name))).toEqual([]);
  expect(documented.filter((name) => !variablesInCode.includes(name))).toEqual([]);
  expect(ofTheStack).toContain('DATA_DIR');
});
