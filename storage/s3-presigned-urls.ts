/**
 * Presigns URLs with which callers and providers read and write objects of an S3 store directly.
 */
import { buildBucketUrl, signRequest, type S3Bucket } from './s3-bucket.ts';
import {
  contentTypeOf,
  isStorageKey,
  untypedExtension,
  urlTtlMaxMs,
  type StorageUrls,
} from './storage.ts';

interface PresignOptions {
  ttlMs: number;
  headers?: Record<string, string>;
}

/**
 * Creates the functions that presign URLs of a bucket. A URL expires no later than the credentials
 * that signed it.
 */
export function createPresignedUrls(bucket: S3Bucket): StorageUrls {
  const base = new URL(buildBucketUrl(bucket));

  async function presign(method: 'GET' | 'PUT', url: URL, { ttlMs, headers = {} }: PresignOptions) {
    const urlExpiresAtMs = Date.now() + ttlMs;
    url.searchParams.set('X-Amz-Expires', String(Math.floor(ttlMs / 1000)));
    const signedRequest = await signRequest(bucket, {
      method,
      url: url.href,
      headers,
      signQuery: true,
      // Content-Type, Content-Length and If-None-Match are signed, so the store enforces them.
      allHeaders: true,
    });
    const expiresAtMs = Math.min(urlExpiresAtMs, signedRequest.credentialsExpireAtMs);
    return { url: signedRequest.url.href, expiresAtMs: Math.floor(expiresAtMs / 1000) * 1000 };
  }

  return {
    async urlOf(key, ttlMs) {
      const url = new URL(key, base);
      if (key.endsWith(`.${untypedExtension}`)) {
        // The uploader may have sent any content type, so the response overrides it with one that a
        // browser does not execute.
        url.searchParams.set('response-content-type', contentTypeOf(key));
      }
      return (await presign('GET', url, { ttlMs: Math.min(ttlMs, urlTtlMaxMs) })).url;
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
