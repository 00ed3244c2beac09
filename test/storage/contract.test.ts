/** One contract for all storage drivers: each driver fulfils every promise of the port. */
import { randomBytes } from 'node:crypto';
import { access, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { buffer } from 'node:stream/consumers';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { openS3 } from '../../storage/s3.ts';
import type { Storage } from '../../storage/storage.ts';
import { newId } from '../../domain/ids.ts';
import { findS3Server, startS3Server, type S3Server } from '../../dev/stack/s3-server.ts';
import { newFolder, openTestDisk } from '../harness/folders.ts';

interface Driver {
  storage: Storage;
  /** Whether URLs of the storage can be fetched here (the local driver's are served by the API). */
  server: S3Server | null;
  directory: string;
}

const executable = await findS3Server();
const servers: { s3?: S3Server } = {};
if (executable) process.stderr.write(`S3 contract tests run against ${executable.name}\n`);

const makeOptions = (server: S3Server, spoolDirectory: string) => ({
  ...server,
  readCredentials: () => Promise.resolve(server),
  spoolDirectory,
});

async function openDriver(name: 'local' | 's3'): Promise<Driver> {
  const directory = newFolder();
  if (name === 'local') return { storage: await openTestDisk(directory), server: null, directory };
  if (!executable) throw new Error('no S3 server');
  const server = (servers.s3 ??= await startS3Server(executable));
  const storage = await openS3(makeOptions(server, directory));
  return { storage, server, directory };
}
afterAll(async () => servers.s3?.stop());

const newKey = (extension = 'png') => `${newId('organization')}/${newId('upload')}.${extension}`;

describe.each(['local', 's3'] as const)('the %s driver', (name) => {
  if (name === 's3' && !executable) {
    // In CI, findS3Server throws instead.
    it.skip('needs an S3 server, and none was found');
    return;
  }
  let driver: Driver;
  beforeAll(async () => {
    driver = await openDriver(name);
  });

  async function put(key: string, bytes: Buffer): Promise<'stored' | 'exists'> {
    const path = await driver.storage.spoolPath();
    await writeFile(path, bytes);
    const stored = await driver.storage.put(key, path);
    await expect(access(path)).rejects.toThrow('ENOENT');
    return stored;
  }
  const read = async (key: string) => {
    const object = await driver.storage.open(key);
    return object && buffer(object.stream);
  };

  it('signs the same URL for a whole step of time, and another one in the next', async () => {
    const dayMs = 86_400_000;
    const key = newKey();
    const urlAt = (timeMs: number) => {
      vi.setSystemTime(timeMs);
      return driver.storage.urlOf(key, 3_600_000, { stepMs: dayMs });
    };
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    const morning = Date.UTC(2026, 10, 28, 1);
    const url = await urlAt(morning);
    expect(await urlAt(morning + 20 * 3_600_000)).toBe(url);
    expect(await urlAt(morning + dayMs)).not.toBe(url);
  });

  it('is usable', async () => {
    await driver.storage.check();
    await driver.storage.check();
  });

  it('returns the bytes, the size and the type of a stored object', async () => {
    const key = newKey('mp3');
    const bytes = randomBytes(3 * 1024 * 1024 + 7);
    expect(await put(key, bytes)).toBe('stored');
    expect(await driver.storage.size(key)).toBe(bytes.length);
    const object = await driver.storage.open(key);
    expect(object).toMatchObject({ sizeBytes: bytes.length, contentType: 'audio/mpeg' });
    expect((await read(key))?.equals(bytes)).toBe(true);
  });

  it('responds to ranges with the bytes between both ends', async () => {
    const key = newKey();
    const bytes = randomBytes(5000);
    await put(key, bytes);
    for (const [first = 0, last = 0] of [
      [0, 0],
      [10, 99],
      [4990, 9999],
    ]) {
      const object = await driver.storage.open(key, { first, last });
      expect(object?.sizeBytes).toBe(5000);
      const part = object && (await buffer(object.stream));
      expect(part?.equals(bytes.subarray(first, last + 1))).toBe(true);
    }
  });

  it('returns null for a missing object, and removes an existing one', async () => {
    const key = newKey();
    expect(await driver.storage.size(key)).toBeNull();
    expect(await driver.storage.open(key)).toBeNull();
    await driver.storage.remove(key);
    await put(key, Buffer.from('here'));
    await driver.storage.remove(key);
    expect(await driver.storage.size(key)).toBeNull();
  });

  it('writes a key once: the second write changes nothing and is reported', async () => {
    const key = newKey();
    expect(await put(key, Buffer.from('first'))).toBe('stored');
    expect(await put(key, Buffer.from('second, longer'))).toBe('exists');
    expect((await read(key))?.toString()).toBe('first');
  });

  it('replaces an object, and stores one that does not exist', async () => {
    const key = newKey();
    await put(key, Buffer.from('first'));
    for (const name of [key, newKey()]) {
      const path = await driver.storage.spoolPath();
      await writeFile(path, 'second, longer');
      await driver.storage.replace(name, path);
      await expect(access(path)).rejects.toThrow('ENOENT');
      expect((await read(name))?.toString()).toBe('second, longer');
    }
  });

  it('stores the complete object of one of many parallel writers', async ({ skip }) => {
    skip(driver.server?.name === 'rclone', 'rclone ignores conditions: all may win');
    const key = newKey();
    const bodies = Array.from({ length: 8 }, () => randomBytes(200_000));
    const ends = await Promise.all(bodies.map((body) => put(key, body)));
    expect(ends.filter((end) => end === 'stored')).toHaveLength(1);
    const winner = bodies[ends.indexOf('stored')];
    expect(winner && (await read(key))?.equals(winner)).toBe(true);
  });

  it('recognizes its own read URLs, and no others', async () => {
    const key = newKey();
    const url = new URL(await driver.storage.urlOf(key, 60_000));
    expect(driver.storage.keyOf(url)).toBe(key);
    const others = [
      `${url.origin}/`,
      url.href.replace(key, 'org_1/file_2.png'),
      url.href.replace(key, `../${key}`).replace(/\/(files|artifacts)\/\.\./, '/..'),
      url.href.replace('127.0.0.1', '127.0.0.2'),
      url.href.replace('http:', 'https:'),
    ];
    expect(others.filter((other) => driver.storage.keyOf(new URL(other)) !== null)).toEqual([]);
  });

  it('removes spool files that a crash left, after an hour', async () => {
    const [old, fresh] = [await driver.storage.spoolPath(), await driver.storage.spoolPath()];
    await Promise.all([writeFile(old, 'old'), writeFile(fresh, 'fresh')]);
    const hourAgo = Date.now() / 1000 - 3700;
    await utimes(old, hourAgo, hourAgo);
    if (driver.server) await openS3(makeOptions(driver.server, driver.directory));
    else await openTestDisk(driver.directory);
    expect(await readdir(join(driver.directory, 'spool'))).toEqual([fresh.split('/').at(-1)]);
    await rm(fresh);
  });

  it('rejects keys of another form than its own', async () => {
    for (const key of ['../x', '/etc/passwd', `${newId('organization')}/../x.png`, '']) {
      expect(driver.storage.keyOf(new URL(`http://127.0.0.1:4000/files/${key}`))).toBeNull();
      if (driver.server) continue;
      await expect(driver.storage.size(key)).rejects.toThrow('form');
    }
  });
});

describe.skipIf(!executable)('presigned URLs', () => {
  let driver: Driver;
  beforeAll(async () => {
    driver = await openDriver('s3');
  });

  const body = Buffer.from('\x89PNG and ten more bytes', 'latin1');
  const put = async (url: string, headers: Record<string, string>, bytes = body) => {
    const answer = await request(url, { method: 'PUT', headers, body: bytes });
    await answer.body.dump();
    return answer.statusCode;
  };
  const signed = async (terms: { sizeBytes?: number | null; ttlMs?: number } = {}) => {
    const key = newKey();
    const upload = { key, sizeBytes: body.length, ttlMs: 60_000, ...terms };
    return { key, ...(await driver.storage.signUpload(upload)) };
  };

  it('accept the upload that they were signed for, and read it back', async () => {
    const { key, url, headers } = await signed();
    expect(await put(url, headers)).toBe(200);
    const answer = await fetch(await driver.storage.urlOf(key, 60_000));
    expect(answer.status).toBe(200);
    expect(Buffer.from(await answer.arrayBuffer()).equals(body)).toBe(true);
    // rclone forgets the type.
    if (driver.server?.name === 'versitygw') {
      expect(answer.headers.get('content-type')).toBe('image/png');
    }
  });

  it('are signed for the address that callers use', async () => {
    if (!driver.server) throw new Error('no S3 server');
    const publicBaseUrl = driver.server.endpoint.replace('127.0.0.1', 'localhost');
    const storage = await openS3({
      ...makeOptions(driver.server, driver.directory),
      publicBaseUrl,
    });
    const key = newKey();
    const upload = await storage.signUpload({ key, sizeBytes: body.length, ttlMs: 60_000 });
    expect(upload.url.startsWith(`${publicBaseUrl}/`)).toBe(true);
    expect(await put(upload.url, upload.headers)).toBe(200);
    const reading = await storage.urlOf(key, 60_000);
    expect((await fetch(reading)).status).toBe(200);
    expect(storage.keyOf(new URL(reading))).toBe(key);
  });

  it.each<[string, (url: URL) => void]>([
    ['another key', (url) => (url.pathname = url.pathname.replace('file_', 'file_0'))],
    ['a raised expiry', (url) => url.searchParams.set('X-Amz-Expires', '86400')],
    ['a cut signature', (url) => (url.search = url.search.replace(/(Signature=\w+)\w/, '$1'))],
    ['fewer signed headers', (url) => url.searchParams.set('X-Amz-SignedHeaders', 'host')],
    ['another access key', (url) => (url.search = url.search.replace('test-access', 'other'))],
  ])('reject %s', async (_name, tamper) => {
    const { key, url, headers } = await signed();
    const tampered = new URL(url);
    tamper(tampered);
    expect(await put(tampered.href, headers)).toBeGreaterThanOrEqual(400);
    expect(await driver.storage.size(key)).toBeNull();
  });

  it('reject another type, another length, and an expired URL', async () => {
    const { key, url, headers } = await signed();
    expect(await put(url, { ...headers, 'Content-Type': 'text/html' })).toBe(403);
    expect(await put(url, headers, Buffer.concat([body, body]))).toBe(403);
    expect(await driver.storage.size(key)).toBeNull();
    const short = await signed({ ttlMs: 1000 });
    await sleep(2100);
    expect(await put(short.url, short.headers)).toBeGreaterThanOrEqual(400);
    expect(await driver.storage.size(short.key)).toBeNull();
  });

  it('reject a second upload', async ({ skip }) => {
    skip(driver.server?.name === 'rclone', 'rclone ignores conditions');
    const { url, headers } = await signed();
    expect(await put(url, headers)).toBe(200);
    expect(await put(url, headers)).toBe(412);
  });

  it('read nothing without a signature or with that of another key', async () => {
    const { key, url, headers } = await signed();
    await put(url, headers);
    const reading = new URL(await driver.storage.urlOf(key, 60_000));
    const other = new URL(await driver.storage.urlOf(newKey(), 60_000));
    const [bare] = reading.href.split('?');
    expect((await fetch(bare ?? '')).status).toBeGreaterThanOrEqual(400);
    other.pathname = reading.pathname;
    expect((await fetch(other)).status).toBe(403);
  });
});
