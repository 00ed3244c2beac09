/**
 * Signed URLs at which the API serves and receives stored files. The signature is an HMAC-SHA256 of
 * the method, key, content type, expiry and, for uploads, size.
 */
import { createHmac } from 'node:crypto';
import { isSecret } from '../domain/ids.ts';
import { contentTypeOf, isStorageKey, type StorageUrls } from './storage.ts';

export interface SignedUrlsOptions {
  secret: string;
  /** Public URL at which the API serves `/files/…` and `/uploads/…`. */
  publicBaseUrl: string;
}

/** Query parameters of a request to a signed URL. */
type SignedQuery = Readonly<Record<string, string | string[] | undefined>>;

/** Functions that verify signed URLs, for the API routes `/files/…` and `/uploads/…`. */
export interface SignedUrls {
  /** Returns whether a read URL is valid and has not expired. */
  verifyRead: (key: string, query: SignedQuery) => boolean;
  /**
   * Verifies an upload URL. Returns the exact size that it allows (`sizeBytes` is null if it allows
   * any size). Returns null if the URL is invalid or expired.
   */
  verifyUpload: (key: string, query: SignedQuery) => { sizeBytes: number | null } | null;
}

/** Creates the functions that sign and verify URLs. */
export function createSignedUrls({
  secret,
  publicBaseUrl,
}: SignedUrlsOptions): StorageUrls & SignedUrls {
  const readBase = new URL(`${publicBaseUrl}/files/`);

  /** Computes the signature of a URL. The content type depends only on the extension of the key. */
  const computeSignature = (method: 'GET' | 'PUT', key: string, parameters: string[]): string =>
    createHmac('sha256', secret)
      .update([method, key, contentTypeOf(key), ...parameters].join('\n'))
      .digest('base64url');

  const keyOf: StorageUrls['keyOf'] = (url) => {
    if (url.origin !== readBase.origin || !url.pathname.startsWith(readBase.pathname)) return null;
    const key = url.pathname.slice(readBase.pathname.length);
    return isStorageKey(key) ? key : null;
  };
  const verifyRead: SignedUrls['verifyRead'] = (key, { expires, signature }) => {
    if (!isStorageKey(key) || !isUnexpired(expires)) return false;
    return isSecret(signature, computeSignature('GET', key, [expires]));
  };

  return {
    keyOf,
    verifyRead,
    isSigned: (url) => verifyRead(keyOf(url) ?? '', Object.fromEntries(url.searchParams)),
    urlOf(key, ttlMs, { stepMs = 1000 } = {}) {
      const expires = String((Math.ceil((Date.now() + ttlMs) / stepMs) * stepMs) / 1000);
      const signature = computeSignature('GET', key, [expires]);
      return Promise.resolve(`${readBase.href}${key}?expires=${expires}&signature=${signature}`);
    },
    signUpload({ key, sizeBytes, ttlMs }) {
      const expiresAtMs = Math.floor((Date.now() + ttlMs) / 1000) * 1000;
      const expires = String(expiresAtMs / 1000);
      const size = sizeBytes === null ? '' : String(sizeBytes);
      const query = new URLSearchParams({
        expires,
        ...(sizeBytes !== null && { size }),
        signature: computeSignature('PUT', key, [expires, size]),
      });
      return Promise.resolve({
        url: `${publicBaseUrl}/uploads/${key}?${query.toString()}`,
        headers: { 'Content-Type': contentTypeOf(key) },
        expiresAtMs,
      });
    },
    verifyUpload(key, query) {
      const { expires, size, signature, ...unknownParameters } = query;
      if (!isStorageKey(key) || !isUnexpired(expires) || Object.keys(unknownParameters).length > 0)
        return null;
      if (size !== undefined && (typeof size !== 'string' || !/^[1-9]\d{0,11}$/.test(size))) {
        return null;
      }
      if (!isSecret(signature, computeSignature('PUT', key, [expires, size ?? '']))) return null;
      return { sizeBytes: size === undefined ? null : Number(size) };
    },
  };
}

function isUnexpired(expires: unknown): expires is string {
  return (
    typeof expires === 'string' &&
    /^[1-9]\d{0,11}$/.test(expires) &&
    Number(expires) * 1000 > Date.now()
  );
}
