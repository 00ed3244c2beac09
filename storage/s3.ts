/**
 * Storage driver for S3-compatible stores: requests and URLs signed with Signature Version 4,
 * path-style addresses. Bytes of signed URLs pass directly between the store and the client.
 */
import { createReadStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { AwsV4Signer } from 'aws4fetch';
import { Agent, request, type Dispatcher } from 'undici';
import { openSpool } from './spool.ts';
import {
  contentTypeOf,
  isStorageKey,
  untypedExtension,
  urlTtlMaxMs,
  type ByteRange,
  type Storage,
} from './storage.ts';

/** Endpoint and credentials of the store. */
export interface S3Options {
  endpoint: string;
  /** Endpoint that callers and providers reach: URLs are signed for this host. */
  publicBaseUrl?: string | undefined;
  region: string;
  bucket: string;
  accessKeyId: string;
  secretAccessKey: string;
  /** Directory in which files are spooled before they are sent. */
  spoolDirectory: string;
}

/** Unexpected response of the store; the message contains no URL and no key. */
class S3Error extends Error {
  override readonly name = 'S3Error';
}

const exchangeTimeoutMs = 15_000;
/** Time limit for a gigabyte on a slow connection. */
const putTimeoutMs = 900_000;

interface S3Exchange {
  method: 'GET' | 'HEAD' | 'PUT' | 'DELETE';
  key: string;
  headers?: Record<string, string>;
  body?: Dispatcher.DispatchOptions['body'];
  timeoutMs?: number;
}

/** Opens the driver. The store is not contacted before it is needed. */
export async function openS3(options: S3Options): Promise<Storage> {
  const spoolPath = await openSpool(options.spoolDirectory);
  return { spoolPath, ...objectsIn(options), ...presignedUrls(options) };
}

function credentialsOf(options: S3Options) {
  const { accessKeyId, secretAccessKey, region } = options;
  return { accessKeyId, secretAccessKey, region, service: 's3' };
}

function bucketUrl(options: S3Options, endpoint = options.endpoint): string {
  return `${endpoint.replace(/\/$/, '')}/${options.bucket}/`;
}

type Ask = (exchange: S3Exchange) => Promise<Dispatcher.ResponseData>;

/**
 * Sends signed requests to the bucket; only the body of a successful response to a GET is left to
 * read.
 */
function createAsk(options: S3Options): Ask {
  const agent = new Agent({
    connections: 128,
    keepAliveTimeout: 10_000,
    connect: { timeout: 5000 },
  });

  return async (wanted) => {
    const signed = await new AwsV4Signer({
      ...credentialsOf(options),
      method: wanted.method,
      url: bucketUrl(options) + wanted.key,
      headers: wanted.headers ?? {},
    }).sign();
    const answer = await request(signed.url, {
      dispatcher: agent,
      method: wanted.method,
      headers: Object.fromEntries(signed.headers),
      body: wanted.body ?? null,
      signal: AbortSignal.timeout(wanted.timeoutMs ?? exchangeTimeoutMs),
    });
    if (wanted.method !== 'GET' || answer.statusCode >= 300) await answer.body.dump();
    return answer;
  };
}

function refuse(verb: string, answer: Dispatcher.ResponseData): never {
  throw new S3Error(`the store answered ${answer.statusCode} to ${verb}`);
}

function objectsIn(options: S3Options): Pick<Storage, 'put' | 'size' | 'open' | 'remove'> {
  const ask = createAsk(options);

  async function size(key: string): Promise<number | null> {
    const answer = await ask({ method: 'HEAD', key });
    if (answer.statusCode === 404) return null;
    if (answer.statusCode !== 200) refuse('HEAD', answer);
    return Number(answer.headers['content-length']);
  }

  async function send(key: string, path: string, conditional: boolean): Promise<number> {
    const { size: sizeBytes } = await stat(path);
    const answer = await ask({
      method: 'PUT',
      key,
      headers: {
        'content-type': contentTypeOf(key),
        'content-length': String(sizeBytes),
        ...(conditional && { 'if-none-match': '*' }),
      },
      body: createReadStream(path),
      timeoutMs: putTimeoutMs,
    });
    // A store that does not support the condition responds with 501: then the preceding request for
    // the object has to suffice.
    if (conditional && answer.statusCode === 501) return send(key, path, false);
    if (answer.statusCode !== 200 && answer.statusCode !== 412) refuse('PUT', answer);
    return answer.statusCode;
  }

  return {
    size,
    async put(key, path) {
      // The object is requested first, because some stores ignore the condition and would overwrite
      // it.
      const exists = (await size(key)) !== null || (await send(key, path, true)) === 412;
      await rm(path, { force: true });
      return exists ? 'exists' : 'stored';
    },
    async open(key, range) {
      const headers = range && { range: `bytes=${range.first}-${range.last}` };
      const answer = await ask({
        method: 'GET',
        key,
        timeoutMs: putTimeoutMs,
        ...(headers && { headers }),
      });
      if (answer.statusCode === 404) return null;
      if (answer.statusCode !== 200 && answer.statusCode !== 206) refuse('GET', answer);
      const sizeBytes = wholeSize(answer);
      if (range && !holdsRange(answer, range, sizeBytes)) {
        answer.body.on('error', () => {}).destroy();
        throw new S3Error('the store does not answer ranges');
      }
      return { stream: answer.body, sizeBytes, contentType: contentTypeOf(key) };
    },
    async remove(key) {
      const answer = await ask({ method: 'DELETE', key });
      if (answer.statusCode !== 404 && answer.statusCode >= 300) refuse('DELETE', answer);
    },
  };
}

function wholeSize(answer: Dispatcher.ResponseData): number {
  const [, whole] = /\/(\d+)$/.exec(String(answer.headers['content-range'])) ?? [];
  return Number(whole ?? answer.headers['content-length']);
}

/** Some stores respond to a range request with the right bytes and the status 200. */
function holdsRange(answer: Dispatcher.ResponseData, range: ByteRange, sizeBytes: number): boolean {
  const wanted = Math.min(range.last, sizeBytes - 1) - range.first + 1;
  return Number(answer.headers['content-length']) === wanted;
}

function presignedUrls(options: S3Options): Pick<Storage, 'urlOf' | 'signUpload' | 'keyOf'> {
  const base = new URL(bucketUrl(options, options.publicBaseUrl));

  async function presign(method: 'GET' | 'PUT', url: URL, wanted: Presigned): Promise<string> {
    url.searchParams.set('X-Amz-Expires', String(Math.floor(wanted.ttlMs / 1000)));
    const signed = await new AwsV4Signer({
      ...credentialsOf(options),
      method,
      url: url.href,
      headers: wanted.headers ?? {},
      signQuery: true,
      // Type, length and condition are part of the signature, so the store enforces them.
      allHeaders: true,
    }).sign();
    return signed.url.href;
  }

  return {
    urlOf(key, ttlMs) {
      const url = new URL(key, base);
      if (key.endsWith(`.${untypedExtension}`)) {
        // The uploader may have sent any content type: types that a browser executes are replaced.
        url.searchParams.set('response-content-type', contentTypeOf(key));
      }
      return presign('GET', url, { ttlMs: Math.min(ttlMs, urlTtlMaxMs) });
    },
    async signUpload({ key, sizeBytes, ttlMs }) {
      const expiresAtMs = Math.floor((Date.now() + ttlMs) / 1000) * 1000;
      const headers = { 'Content-Type': contentTypeOf(key), 'If-None-Match': '*' };
      const length = sizeBytes !== null && { 'Content-Length': String(sizeBytes) };
      const url = await presign('PUT', new URL(key, base), {
        ttlMs,
        headers: { ...headers, ...length },
      });
      // The length is signed but not listed: every client sends it, and many cannot set it.
      return { url, headers, expiresAtMs };
    },
    keyOf(url) {
      if (url.origin !== base.origin || !url.pathname.startsWith(base.pathname)) return null;
      const key = url.pathname.slice(base.pathname.length);
      return isStorageKey(key) ? key : null;
    },
  };
}

interface Presigned {
  ttlMs: number;
  headers?: Record<string, string>;
}
