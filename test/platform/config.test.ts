import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../platform/config.ts';

const secret = 'kE3vR9xQ2mN7pL5sT8wY1zB4cD6fG0hJ';
const good = {
  DATABASE_URL: 'postgres://user:pass@127.0.0.1:5432/gateway',
  TEMPORAL_ADDRESS: '127.0.0.1:7233',
  STORAGE_SECRET: secret,
  KEY_PEPPER: secret,
  WEBHOOK_SECRET: secret,
  WEBHOOK_SIGNING_SECRET: secret,
  ADMIN_API_KEY: secret,
  FAL_KEY: 'fal-key-of-tests',
  ELEVENLABS_API_KEY: 'elevenlabs-key-of-tests',
};

describe('a configuration', () => {
  it('is read once, with defaults and types', () => {
    expect(loadConfig(good)).toMatchObject({ RATE_LIMIT_PER_MINUTE: 60, SYNC_WAIT_MS: 60_000 });
    expect(loadConfig({ ...good, SYNC_WAIT_MS: '5' }).SYNC_WAIT_MS).toBe(5);
  });

  it.each(Object.keys(good))('is refused without %s, which is named', (name) => {
    expect(() => loadConfig({ ...good, [name]: undefined })).toThrow(`${name} is required`);
    expect(() => loadConfig({ ...good, [name]: '' })).toThrow(`${name} is required`);
  });

  it('names all that the s3 storage lacks', () => {
    const s3 = {
      ...good,
      STORAGE_DRIVER: 's3',
      S3_ENDPOINT: 'https://s3.example',
      S3_BUCKET: 'media',
    };
    expect(() => loadConfig(s3)).toThrow(
      'S3_REGION is required; S3_ACCESS_KEY_ID is required; S3_SECRET_ACCESS_KEY is required',
    );
    const whole = { S3_REGION: 'eu', S3_ACCESS_KEY_ID: 'id', S3_SECRET_ACCESS_KEY: 'key' };
    expect(loadConfig({ ...s3, ...whole }).STORAGE_DRIVER).toBe('s3');
  });

  it.each([
    ['KEY_PEPPER', 'short'],
    ['WEBHOOK_SECRET', 'a'.repeat(64)],
    ['STORAGE_SECRET', 'change-me'.padEnd(40, '0')],
    ['TEMPORAL_ADDRESS', 'http://localhost:7233'],
    ['DATABASE_URL', 'mysql://localhost/db'],
    ['RATE_LIMIT_PER_MINUTE', '0'],
    ['SYNC_WAIT_MS', 'soon'],
    ['API_WORKER', 'yes'],
    ['WEBHOOK_RETRY_DELAYS_MS', '5000,soon'],
    ['S3_BUCKET', '../other/bucket'],
    ['UPLOAD_URL_TTL_MS', '600001'],
  ])('is refused with a wrong %s, whose value is not shown', (name, value) => {
    const load = () => loadConfig({ ...good, [name]: value });
    expect(load).toThrow(`${name} is wrong`);
    expect(load).not.toThrow(value.length > 8 ? value : /^$/);
  });
});

describe('a process with a wrong configuration', () => {
  it.each(['api', 'worker'])('stops with one line: %s', async (script) => {
    const main = fileURLToPath(new URL(`../../${script}/main.ts`, import.meta.url));
    const ended = await promisify(execFile)(process.execPath, [main], {
      env: { ...good, KEY_PEPPER: 'short' },
    }).catch((error: { code: number; stderr: string }) => error);
    expect(ended).toMatchObject({ code: 78 });
    expect(ended.stderr.trim().split('\n')).toEqual([
      'configuration: KEY_PEPPER is wrong: must have at least 32 characters',
    ]);
  });
});

describe('docs/configuration.md', () => {
  it('tells every variable, and none that does not exist', async () => {
    const root = new URL('../../', import.meta.url);
    const source = await readFile(new URL('platform/config.ts', root), 'utf8');
    const text = await readFile(new URL('docs/configuration.md', root), 'utf8');
    const known = [...source.matchAll(/^ {2}([A-Z][A-Z0-9_]+):/gm)].map(([, name]) => name);
    const told = [...text.matchAll(/^\| `([A-Z][A-Z0-9_]+)`/gm)].map(([, name]) => name);
    const ofTheStack = [...text.matchAll(/^\| \*`([A-Z][A-Z0-9_]+)`/gm)].map(([, name]) => name);
    expect(known.filter((name) => !told.includes(name))).toEqual([]);
    expect(told.filter((name) => !known.includes(name))).toEqual([]);
    expect(ofTheStack).toContain('DATA_DIR');
  });
});
