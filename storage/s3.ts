/** Storage in an S3-compatible bucket: objects, presigned URLs and credentials. */
import { AwsV4Signer } from 'aws4fetch';
import { createReadStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { request, type Dispatcher } from 'undici';
import { createAgent } from '../platform/connector.ts';
import { readStart } from '../platform/outbound.ts';
import {
  contentTypeOf,
  type ByteRange,
  type StorageObjects,
  type StoredObject,
  isStorageKey,
  untypedExtension,
  urlTtlMaxMs,
  type StorageUrls,
  type Storage,
} from './storage.ts';
import { openSpool } from './spool.ts';

export interface S3Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  /** Session token of temporary credentials. */
  sessionToken?: string;
  /** Expiry of temporary credentials; absent for fixed keys. */
  expiration?: Date;
}

/** Timeouts of requests to the Security Token Service, in milliseconds. */
const stsTimeouts = { connectionTimeout: 2000, requestTimeout: 5000 };

/**
 * Returns a function that reads the credentials that AWS issues to this process. It tries the usual
 * sources in order: AWS_ACCESS_KEY_ID, a profile, AWS_WEB_IDENTITY_TOKEN_FILE (EKS with IRSA),
 * AWS_CONTAINER_CREDENTIALS_…_URI (ECS, EKS Pod Identity), EC2 instance metadata version 2. The
 * library caches the credentials and replaces them five minutes before they expire. Its requests to
 * metadata addresses bypass the outbound guard, because no caller can influence them.
 * @param region region of the Security Token Service
 */
export async function createAwsCredentials(region: string): Promise<() => Promise<S3Credentials>> {
  // Imported only when needed: the library is large, and most processes use fixed keys.
  const { fromNodeProviderChain } = await import('@aws-sdk/credential-providers');
  const readCredentials = fromNodeProviderChain({
    clientConfig: { region, requestHandler: stsTimeouts },
    ec2MetadataV1Disabled: true,
  });
  return async () => {
    try {
      return await readCredentials();
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new Error(`the AWS credentials for the storage cannot be read: ${reason}`, { cause });
    }
  };
}

/** S3 bucket, with the function that reads the credentials to access it. */
export interface S3Bucket {
  endpoint: string;
  region: string;
  bucket: string;
  readCredentials: () => Promise<S3Credentials>;
}

/** Request to sign, in the form that aws4fetch expects. */
type UnsignedRequest = Pick<
  ConstructorParameters<typeof AwsV4Signer>[0],
  'method' | 'url' | 'headers' | 'signQuery' | 'allHeaders' | 'datetime'
>;

/** Returns the base URL of a bucket, to which storage keys are appended. */
function buildBucketUrl({ endpoint, bucket }: S3Bucket): string {
  return `${endpoint.replace(/\/$/, '')}/${bucket}/`;
}

/**
 * Signs a request with the current credentials. Returns the signed URL and headers, and the time
 * when the credentials expire.
 */
async function signRequest({ region, readCredentials }: S3Bucket, unsigned: UnsignedRequest) {
  const { expiration, ...credentials } = await readCredentials();
  const signer = new AwsV4Signer({ ...unsigned, ...credentials, region, service: 's3' });
  return { ...(await signer.sign()), credentialsExpireAtMs: expiration?.getTime() ?? Infinity };
}

/** Unexpected response from the store. The message contains no URL and no key. */
class S3Error extends Error {
  override readonly name = 'S3Error';
}

/** Timeout in milliseconds of a request without an object, and of an object's headers. */
const exchangeTimeoutMs = 15_000;
/** Timeout of a transfer in milliseconds: enough for a gigabyte over a slow connection. */
const transferTimeoutMs = 900_000;

interface S3Request {
  method: 'GET' | 'HEAD' | 'PUT' | 'DELETE';
  key: string;
  headers?: Record<string, string>;
  body?: Dispatcher.DispatchOptions['body'];
  timeoutMs?: number;
}

/** Response of the store; `code` is the code of S3 in the body of an error, if there is one. */
type S3Response = Dispatcher.ResponseData & { code?: string | undefined };
type SendRequest = (s3Request: S3Request) => Promise<S3Response>;

/** Maximum number of bytes of an error that are read. */
const errorBytesMax = 8192;

/**
 * Creates the function that sends a signed request to the bucket. The caller must read the body of
 * a successful GET response; all other bodies are read or discarded.
 */
function createSendRequest(bucket: S3Bucket): SendRequest {
  const agent = createAgent({ connections: 128, keepAliveTimeout: 10_000 });

  return async (s3Request) => {
    const signedRequest = await signRequest(bucket, {
      method: s3Request.method,
      url: buildBucketUrl(bucket) + s3Request.key,
      headers: s3Request.headers ?? {},
    });
    const response = await request(signedRequest.url, {
      dispatcher: agent,
      method: s3Request.method,
      headers: Object.fromEntries(signedRequest.headers),
      body: s3Request.body ?? null,
      headersTimeout: s3Request.method === 'GET' ? exchangeTimeoutMs : 0,
      signal: AbortSignal.timeout(s3Request.timeoutMs ?? exchangeTimeoutMs),
    });
    if (response.statusCode >= 300) {
      const text = await readStart(response, errorBytesMax);
      return { ...response, code: /<Code>([\w.-]{1,64})<\/Code>/.exec(text)?.[1] };
    }
    if (s3Request.method !== 'GET') await response.body.dump();
    return response;
  };
}

/** Difference of two clocks above which an error reports it. Stores accept up to 15 minutes. */
const clockSkewMs = 60_000;

/** Throws the error for a status, with the code of S3 and a wrong clock. @throws S3Error */
function throwStatusError(method: string, { statusCode, code, headers }: S3Response): never {
  const skewMs = Date.parse(String(headers['date'])) - Date.now();
  const reason = code === undefined ? '' : ` (${code})`;
  const clock =
    Math.abs(skewMs) > clockSkewMs
      ? `; its clock differs from the clock of this machine by ${Math.round(skewMs / 1000)} seconds`
      : '';
  throw new S3Error(`the store responded to ${method} with status ${statusCode}${reason}${clock}`);
}

const isSuccess = ({ statusCode }: S3Response): boolean => statusCode >= 200 && statusCode < 300;

/** Returns whether an object does not exist. A missing bucket, for example, has status 404 too. */
const isMissing = ({ statusCode, code }: S3Response): boolean =>
  statusCode === 404 && code === 'NoSuchKey';

/** Key and content of the object by which the store is checked. */
const probe = { key: 'studio-gateway-probe', text: 'studio-gateway' };

/** Creates the check of the store, which writes an object once and reads it each time. */
function createCheck(sendRequest: SendRequest): StorageObjects['check'] {
  const { key, text } = probe;
  let isWritten = false;
  return async () => {
    if (!isWritten) {
      const response = await sendRequest({ method: 'PUT', key, body: text });
      if (!isSuccess(response)) throwStatusError('PUT', response);
      isWritten = true;
    }
    const response = await sendRequest({ method: 'GET', key });
    if (isMissing(response)) isWritten = false;
    if (!isSuccess(response)) throwStatusError('GET', response);
    if ((await response.body.text()) !== text) throw new S3Error('the store changed an object');
  };
}

/** Creates the function that uploads a file, and returns the status: 412 if the object exists already. */
function createUpload(sendRequest: SendRequest) {
  async function upload(key: string, path: string, onlyIfAbsent: boolean): Promise<number> {
    const { size: sizeBytes } = await stat(path);
    const response = await sendRequest({
      method: 'PUT',
      key,
      headers: {
        'content-type': contentTypeOf(key),
        'content-length': String(sizeBytes),
        ...(onlyIfAbsent && { 'if-none-match': '*' }),
      },
      body: createReadStream(path),
      timeoutMs: transferTimeoutMs,
    });
    // A store that does not support If-None-Match responds with 501. Then only the check in `put`
    // prevents an overwrite.
    if (onlyIfAbsent && response.statusCode === 501) return upload(key, path, false);
    if (!isSuccess(response) && response.statusCode !== 412) throwStatusError('PUT', response);
    return response.statusCode;
  }
  return upload;
}

/** Opens the objects of a bucket. Sends no request to the store. */
function openS3Objects(bucket: S3Bucket): StorageObjects {
  const sendRequest = createSendRequest(bucket);

  /** Returns the size of an object; null for status 404, whose reason HEAD does not contain. */
  async function readSize(key: string): Promise<number | null> {
    const response = await sendRequest({ method: 'HEAD', key });
    if (response.statusCode === 404) return null;
    if (response.statusCode !== 200) throwStatusError('HEAD', response);
    return readObjectSize(response);
  }

  async function open(key: string, range?: ByteRange): Promise<StoredObject | null> {
    const response = await sendRequest({
      method: 'GET',
      key,
      timeoutMs: transferTimeoutMs,
      ...(range && { headers: { range: `bytes=${range.first}-${range.last}` } }),
    });
    if (isMissing(response)) return null;
    if (response.statusCode !== 200 && response.statusCode !== 206)
      throwStatusError('GET', response);
    const sizeBytes = readObjectSize(response);
    if (range && !hasRangeLength(response, range, sizeBytes)) {
      throwUnusable(response, 'does not support range requests');
    }
    return { stream: response.body, sizeBytes, contentType: contentTypeOf(key) };
  }

  const upload = createUpload(sendRequest);

  return {
    check: createCheck(sendRequest),
    async size(key) {
      const sizeBytes = await readSize(key);
      if (sizeBytes !== null) return sizeBytes;
      const object = await open(key, { first: 0, last: 0 });
      object?.stream.on('error', () => {}).destroy();
      return object && object.sizeBytes;
    },
    async put(key, path) {
      // The size is read first: some stores ignore If-None-Match and would overwrite the object.
      const exists = (await readSize(key)) !== null || (await upload(key, path, true)) === 412;
      await rm(path, { force: true });
      return exists ? 'exists' : 'stored';
    },
    open,
    async replace(key, path) {
      await upload(key, path, false);
      await rm(path, { force: true });
    },
    async remove(key) {
      const response = await sendRequest({ method: 'DELETE', key });
      if (!isMissing(response) && !isSuccess(response)) throwStatusError('DELETE', response);
    },
  };
}

/**
 * Returns the size of the complete object, even if the response contains only a range of it.
 * @throws S3Error
 */
function readObjectSize(response: Dispatcher.ResponseData): number {
  const { headers } = response;
  const [, totalBytes] = /\/(\d+)$/.exec(String(headers['content-range'])) ?? [];
  const size = Number(totalBytes ?? headers['content-length']);
  return Number.isSafeInteger(size)
    ? size
    : throwUnusable(response, 'did not send the size of the object');
}

/**
 * Discards an unusable response without reading its body.
 * @throws S3Error always
 */
function throwUnusable(response: Dispatcher.ResponseData, problem: string): never {
  response.body.on('error', () => {}).destroy();
  throw new S3Error(`the store ${problem}`);
}

/**
 * Returns whether the response has the length of the requested range. The status is not checked,
 * because some stores send the wrong one.
 */
function hasRangeLength(
  response: Dispatcher.ResponseData,
  range: ByteRange,
  sizeBytes: number,
): boolean {
  const rangeBytes = Math.min(range.last, sizeBytes - 1) - range.first + 1;
  return Number(response.headers['content-length']) === rangeBytes;
}

interface PresignOptions {
  ttlMs: number;
  /** Time from which `ttlMs` counts; now by default. */
  signedAtMs?: number;
  headers?: Record<string, string>;
}

/**
 * Creates the functions that presign URLs of a bucket. A URL expires no later than the credentials
 * that signed it.
 */
function createPresignedUrls(bucket: S3Bucket): StorageUrls {
  const base = new URL(buildBucketUrl(bucket));

  async function presign(
    method: 'GET' | 'PUT',
    url: URL,
    { ttlMs, signedAtMs = Date.now(), headers = {} }: PresignOptions,
  ) {
    const urlExpiresAtMs = signedAtMs + ttlMs;
    url.searchParams.set('X-Amz-Expires', String(Math.floor(ttlMs / 1000)));
    const signedRequest = await signRequest(bucket, {
      method,
      url: url.href,
      headers,
      signQuery: true,
      datetime: new Date(signedAtMs).toISOString().replaceAll(/[:-]|\.\d{3}/g, ''),
      // Content-Type, Content-Length and If-None-Match are signed, so the store enforces them.
      allHeaders: true,
    });
    const expiresAtMs = Math.min(urlExpiresAtMs, signedRequest.credentialsExpireAtMs);
    return { url: signedRequest.url.href, expiresAtMs: Math.floor(expiresAtMs / 1000) * 1000 };
  }

  return {
    async urlOf(key, ttlMs, { stepMs, disposition } = {}) {
      const url = new URL(key, base);
      if (disposition !== undefined) {
        url.searchParams.set('response-content-disposition', disposition);
      }
      if (key.endsWith(`.${untypedExtension}`)) {
        // The uploader may have sent any content type, so the response overrides it with one that a
        // browser does not execute.
        url.searchParams.set('response-content-type', contentTypeOf(key));
      }
      if (stepMs === undefined) {
        return (await presign('GET', url, { ttlMs: Math.min(ttlMs, urlTtlMaxMs) })).url;
      }
      // The same signing time makes the same URL.
      const signedAtMs = Math.floor(Date.now() / stepMs) * stepMs;
      return (await presign('GET', url, { ttlMs: ttlMs + stepMs, signedAtMs })).url;
    },
    async signUpload({ key, sizeBytes, ttlMs }) {
      const headers = { 'Content-Type': contentTypeOf(key), 'If-None-Match': '*' };
      const lengthHeader = sizeBytes !== null && { 'Content-Length': String(sizeBytes) };
      const signedRequest = await presign('PUT', new URL(key, base), {
        ttlMs,
        headers: { ...headers, ...lengthHeader },
      });
      // `headers` omits the signed Content-Length: clients send it automatically, and many cannot
      // set it.
      return { ...signedRequest, headers };
    },
    keyOf(url) {
      if (url.origin !== base.origin || !url.pathname.startsWith(base.pathname)) return null;
      const key = url.pathname.slice(base.pathname.length);
      return isStorageKey(key) ? key : null;
    },
    isSigned: (url) => url.searchParams.has('X-Amz-Signature'),
  };
}

export interface S3Options extends S3Bucket {
  /**
   * Endpoint at which callers and providers reach the store; URLs are signed for this host.
   * Defaults to `endpoint`.
   */
  publicBaseUrl?: string | undefined;
  /** Directory in which files are spooled before they are sent to the store. */
  spoolDirectory: string;
}

/** Opens the S3 storage driver. Sends no request to the store. */
export async function openS3({ spoolDirectory, ...options }: S3Options): Promise<Storage> {
  const { publicBaseUrl: endpoint = options.endpoint, ...bucket } = options;
  return {
    spoolPath: await openSpool(spoolDirectory),
    ...openS3Objects(bucket),
    ...createPresignedUrls({ ...bucket, endpoint }),
  };
}
