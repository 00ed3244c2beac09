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

  const xml = (code: string): string =>
    `<?xml version="1.0"?><Error><Code>${code}</Code><Message>${key}</Message></Error>`;

  it('names the reason of the store and a wrong clock, but no key', async () => {
    const date = new Date(Date.now() + 1_200_000).toUTCString();
    const storage = await storeThat(({ method }, response) => {
      response.writeHead(403, { date });
      response.end(method === 'HEAD' ? '' : xml('RequestTimeTooSkewed'));
    });
    const clock = /; its clock differs from the clock of this machine by 1(199|200) seconds$/;
    for (const message of await collectFailures(storage)) {
      expect(message).toMatch(clock);
      expect(message).not.toContain(key);
    }
    await expect(storage.open(key)).rejects.toThrow('GET with status 403 (RequestTimeTooSkewed);');
    await expect(storage.check()).rejects.toThrow('PUT with status 403 (RequestTimeTooSkewed);');
  });

  it.each(['NoSuchBucket', 'NoSuchUpload', ''])('with 404 %s has no answer', async (code) => {
    const storage = await storeThat(({ method }, response) =>
      response.writeHead(404).end(method === 'HEAD' ? '' : xml(code)),
    );
    const reason = code && ` (${code})`;
    expect(await collectFailures(storage)).toEqual([
      `S3Error: the store responded to GET with status 404${reason}`,
      `S3Error: the store responded to GET with status 404${reason}`,
      `S3Error: the store responded to DELETE with status 404${reason}`,
      `S3Error: the store responded to PUT with status 404${reason}`,
    ]);
  });

  it('with 404 NoSuchKey has no such object', async () => {
    const storage = await storeThat(({ method }, response) =>
      response.writeHead(404).end(method === 'HEAD' ? '' : xml('NoSuchKey')),
    );
    expect(await storage.size(key)).toBeNull();
    expect(await storage.open(key)).toBeNull();
    await storage.remove(key);
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
    ['stored', 201],
    ['stored', 204],
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

describe('the check of a store', () => {
  it('writes an object once, reads it each time, and writes it again when it is missing', async () => {
    const requests: string[] = [];
    let body: string | null = null;
    const storage = await storeThat((request, response) => {
      requests.push(`${request.method} ${request.url}`);
      if (request.method === 'PUT') {
        body = '';
        request.on('data', (chunk: Buffer) => (body += chunk.toString()));
        request.on('end', () => response.end());
      } else if (body === null) response.writeHead(404).end('<Code>NoSuchKey</Code>');
      else response.end(body);
    });
    await storage.check();
    await storage.check();
    const [write, read] = ['PUT', 'GET'].map((method) => `${method} /media/studio-gateway-probe`);
    expect(requests).toEqual([write, read, read]);
    body = null;
    await expect(storage.check()).rejects.toThrow('GET with status 404 (NoSuchKey)');
    await storage.check();
    expect(requests.slice(4)).toEqual([write, read]);
  });
});
