/**
 * Storage driver for S3-compatible stores: requests and URLs with Signature Version 4, and
 * path-style addresses. Callers and providers exchange bytes directly with the store, through
 * signed URLs.
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

/** Address and credentials of the store. */
export interface S3Options {
  endpoint: string;
  /**
   * Endpoint at which callers and providers reach the store; URLs are signed for this host. Absent:
   * `endpoint`.
   */
  publicBaseUrl?: string | undefined;
  region: string;
  bucket: string;
  accessKeyId: string;
  secretAccessKey: string;
  /** Directory in which files are spooled before they are sent. */
  spoolDirectory: string;
}

/** Error of an unexpected response from the store; the message contains no URL and no key. */
class S3Error extends Error {
  override readonly name = 'S3Error';
}

const exchangeTimeoutMs = 15_000;
/** Timeout of a transfer of bytes: enough for a gigabyte over a slow connection. */
const putTimeoutMs = 900_000;

interface S3Request {
  method: 'GET' | 'HEAD' | 'PUT' | 'DELETE';
  key: string;
  headers?: Record<string, string>;
  body?: Dispatcher.DispatchOptions['body'];
  timeoutMs?: number;
}

/** Opens the driver, without a request to the store. */
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

type SendRequest = (s3Request: S3Request) => Promise<Dispatcher.ResponseData>;

/**
 * Makes the function that sends a signed request to the bucket. Only the body of a successful
 * response to GET is left for the caller to read.
 */
function createSendRequest(options: S3Options): SendRequest {
  const agent = new Agent({
    connections: 128,
    keepAliveTimeout: 10_000,
    connect: { timeout: 5000 },
  });

  return async (s3Request) => {
    const signed = await new AwsV4Signer({
      ...credentialsOf(options),
      method: s3Request.method,
      url: bucketUrl(options) + s3Request.key,
      headers: s3Request.headers ?? {},
    }).sign();
    const response = await request(signed.url, {
      dispatcher: agent,
      method: s3Request.method,
      headers: Object.fromEntries(signed.headers),
      body: s3Request.body ?? null,
      signal: AbortSignal.timeout(s3Request.timeoutMs ?? exchangeTimeoutMs),
    });
    if (s3Request.method !== 'GET' || response.statusCode >= 300) await response.body.dump();
    return response;
  };
}

function throwStatusError(method: string, response: Dispatcher.ResponseData): never {
  throw new S3Error(`the store responded to ${method} with status ${response.statusCode}`);
}

function objectsIn(options: S3Options): Pick<Storage, 'put' | 'size' | 'open' | 'remove'> {
  const sendRequest = createSendRequest(options);

  async function size(key: string): Promise<number | null> {
    const response = await sendRequest({ method: 'HEAD', key });
    if (response.statusCode === 404) return null;
    if (response.statusCode !== 200) throwStatusError('HEAD', response);
    return Number(response.headers['content-length']);
  }

  async function upload(key: string, path: string, conditional: boolean): Promise<number> {
    const { size: sizeBytes } = await stat(path);
    const response = await sendRequest({
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
    // If the store does not support If-None-Match (501), only the check before the upload prevents
    // an overwrite.
    if (conditional && response.statusCode === 501) return upload(key, path, false);
    if (response.statusCode !== 200 && response.statusCode !== 412)
      throwStatusError('PUT', response);
    return response.statusCode;
  }

  return {
    size,
    async put(key, path) {
      // The object is checked first, because some stores ignore If-None-Match and would overwrite
      // the object.
      const exists = (await size(key)) !== null || (await upload(key, path, true)) === 412;
      await rm(path, { force: true });
      return exists ? 'exists' : 'stored';
    },
    async open(key, range) {
      const headers = range && { range: `bytes=${range.first}-${range.last}` };
      const response = await sendRequest({
        method: 'GET',
        key,
        timeoutMs: putTimeoutMs,
        ...(headers && { headers }),
      });
      if (response.statusCode === 404) return null;
      if (response.statusCode !== 200 && response.statusCode !== 206)
        throwStatusError('GET', response);
      const sizeBytes = objectSize(response);
      if (range && !holdsRange(response, range, sizeBytes)) {
        response.body.on('error', () => {}).destroy();
        throw new S3Error('the store does not support range requests');
      }
      return { stream: response.body, sizeBytes, contentType: contentTypeOf(key) };
    },
    async remove(key) {
      const response = await sendRequest({ method: 'DELETE', key });
      if (response.statusCode !== 404 && response.statusCode >= 300)
        throwStatusError('DELETE', response);
    },
  };
}

function objectSize(response: Dispatcher.ResponseData): number {
  const [, total] = /\/(\d+)$/.exec(String(response.headers['content-range'])) ?? [];
  return Number(total ?? response.headers['content-length']);
}

/**
 * Returns whether the response has the length of the range. The status is not checked, because some
 * stores send the wrong status.
 */
function holdsRange(
  response: Dispatcher.ResponseData,
  range: ByteRange,
  sizeBytes: number,
): boolean {
  const rangeBytes = Math.min(range.last, sizeBytes - 1) - range.first + 1;
  return Number(response.headers['content-length']) === rangeBytes;
}

function presignedUrls(
  options: S3Options,
): Pick<Storage, 'urlOf' | 'signUpload' | 'keyOf' | 'isSigned'> {
  const base = new URL(bucketUrl(options, options.publicBaseUrl));

  async function presign(method: 'GET' | 'PUT', url: URL, terms: Presigned): Promise<string> {
    url.searchParams.set('X-Amz-Expires', String(Math.floor(terms.ttlMs / 1000)));
    const signed = await new AwsV4Signer({
      ...credentialsOf(options),
      method,
      url: url.href,
      headers: terms.headers ?? {},
      signQuery: true,
      // The content type, length and If-None-Match are signed, so that the store enforces them.
      allHeaders: true,
    }).sign();
    return signed.url.href;
  }

  return {
    urlOf(key, ttlMs) {
      const url = new URL(key, base);
      if (key.endsWith(`.${untypedExtension}`)) {
        // The uploader may have sent any content type, so the response must not have a type that a
        // browser executes.
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
      // `headers` does not contain the signed Content-Length: clients send it automatically, and
      // many cannot set it.
      return { url, headers, expiresAtMs };
    },
    keyOf(url) {
      if (url.origin !== base.origin || !url.pathname.startsWith(base.pathname)) return null;
      const key = url.pathname.slice(base.pathname.length);
      return isStorageKey(key) ? key : null;
    },
    isSigned: (url) => url.searchParams.has('X-Amz-Signature'),
  };
}

/** Terms of a signed URL. */
interface Presigned {
  ttlMs: number;
  headers?: Record<string, string>;
}
