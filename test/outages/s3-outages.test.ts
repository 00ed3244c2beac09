/** A store that fails: each operation ends in time, with an error that names no key and no URL. */
import { writeFile } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { openS3 } from '../../storage/s3.ts';
import type { Storage } from '../../storage/storage.ts';
import { newFolder } from '../harness/folders.ts';
import { startHttpServer, type HttpServer } from '../harness/http-server.ts';

const key = `${newId('organization')}/${newId('upload')}.png`;
let server: HttpServer | undefined;
afterEach(() => server?.close());

async function storeThat(listener: RequestListener): Promise<Storage> {
  server = await startHttpServer(listener);
  return openS3({
    endpoint: server.url,
    region: 'us-east-1',
    bucket: 'media',
    readCredentials: () => Promise.resolve({ accessKeyId: 'id', secretAccessKey: 'key' }),
    spoolDirectory: newFolder(),
  });
}

async function put(storage: Storage): Promise<'stored' | 'exists'> {
  const path = await storage.spoolPath();
  await writeFile(path, 'bytes');
  return storage.put(key, path);
}

/** Runs all operations; returns the messages of their errors. */
async function collectFailures(storage: Storage): Promise<string[]> {
  const ends = await Promise.allSettled([
    storage.size(key),
    storage.open(key),
    storage.remove(key),
    put(storage),
  ]);
  return ends.map((end) => (end.status === 'rejected' ? String(end.reason) : 'no failure'));
}

describe('a store that fails', () => {
  it('with a status is reported with the method and the status', async () => {
    const storage = await storeThat((_request, response) => response.writeHead(500).end(key));
    expect(await collectFailures(storage)).toEqual([
      'S3Error: the store responded to HEAD with status 500',
      'S3Error: the store responded to GET with status 500',
      'S3Error: the store responded to DELETE with status 500',
      'S3Error: the store responded to HEAD with status 500',
    ]);
  });

  it('by silence is given up after 15 seconds', { timeout: 40_000 }, async () => {
    const storage = await storeThat(() => {});
    const startedAtMs = performance.now();
    for (const failure of await collectFailures(storage)) expect(failure).toMatch(/timeout/i);
    expect(performance.now() - startedAtMs).toBeLessThan(25_000);
  });

  it('by a size that is missing is not taken for an object', async () => {
    const storage = await storeThat((_request, response) => response.writeHead(200).end());
    await expect(storage.size(key)).rejects.toThrow('did not send the size');
  });

  it('in the middle of an object breaks the stream', async () => {
    const storage = await storeThat((_request, response) => {
      response.writeHead(200, { 'content-length': 10 });
      response.write('bytes');
      setTimeout(() => response.destroy(), 50);
    });
    const object = await storage.open(key);
    await expect(object && buffer(object.stream)).rejects.toThrow();
  });
});

describe('a store that receives an object', () => {
  it.each([
    ['exists', 412],
    ['stored', 200],
  ])('reports that it %s by status %d', async (expected, status) => {
    const storage = await storeThat(({ method, headers }, response) => {
      const isConditional = headers['if-none-match'] === '*';
      response.writeHead(method === 'HEAD' ? 404 : isConditional ? status : 500).end();
    });
    expect(await put(storage)).toBe(expected);
  });

  it('without support for conditions receives it without them', async () => {
    const storage = await storeThat(({ method, headers }, response) => {
      const isConditional = headers['if-none-match'] !== undefined;
      response.writeHead(method === 'HEAD' ? 404 : isConditional ? 501 : 200).end();
    });
    expect(await put(storage)).toBe('stored');
  });
});
