/**
 * URLs of the API that read and upload stored files. They are signed with HMAC-SHA256 over all
 * their terms: method, key, content type, expiry and, for uploads, size.
 */
import { createHmac } from 'node:crypto';
import { isSecret } from '../platform/secret-comparison.ts';
import { contentTypeOf, isStorageKey, type StorageUrls } from './storage.ts';

/** Secret and address of the signed URLs. */
export interface SignedUrlsOptions {
  secret: string;
  /** Public URL at which the API serves `/files/…` and `/uploads/…`. */
  publicBaseUrl: string;
}

/** Query parameters of a received request for a signed URL. */
type SignedQuery = Readonly<Record<string, string | string[] | undefined>>;

/** Checks of signed URLs, for the API routes `/files/…` and `/uploads/…`. */
export interface SignedUrls {
  /** Returns whether the signature of a read URL is valid and has not expired. */
  admitsRead: (key: string, query: SignedQuery) => boolean;
  /**
   * Returns the size in bytes that an upload URL allows (null: any size); null instead of the
   * object if the URL is invalid or expired.
   */
  admitsUpload: (key: string, query: SignedQuery) => { sizeBytes: number | null } | null;
}

/** Makes the signed URLs and their checks. */
export function createSignedUrls({
  secret,
  publicBaseUrl,
}: SignedUrlsOptions): StorageUrls & SignedUrls {
  const readBase = new URL(`${publicBaseUrl}/files/`);

  /**
   * Returns the MAC over all terms of a URL; the content type follows only from the extension of
   * the key.
   */
  const macOf = (method: 'GET' | 'PUT', key: string, terms: string[]): string =>
    createHmac('sha256', secret)
      .update([method, key, contentTypeOf(key), ...terms].join('\n'))
      .digest('base64url');

  const keyOf: StorageUrls['keyOf'] = (url) => {
    if (url.origin !== readBase.origin || !url.pathname.startsWith(readBase.pathname)) return null;
    const key = url.pathname.slice(readBase.pathname.length);
    return isStorageKey(key) ? key : null;
  };
  const admitsRead: SignedUrls['admitsRead'] = (key, { expires, signature }) => {
    if (!isStorageKey(key) || !isInTime(expires)) return false;
    return isSecret(signature, macOf('GET', key, [expires]));
  };

  return {
    keyOf,
    admitsRead,
    isSigned: (url) => admitsRead(keyOf(url) ?? '', Object.fromEntries(url.searchParams)),
    urlOf(key, ttlMs) {
      const expires = String(Math.ceil((Date.now() + ttlMs) / 1000));
      const signature = macOf('GET', key, [expires]);
      return Promise.resolve(`${readBase.href}${key}?expires=${expires}&signature=${signature}`);
    },
    signUpload({ key, sizeBytes, ttlMs }) {
      const expiresAtMs = Math.floor((Date.now() + ttlMs) / 1000) * 1000;
      const expires = String(expiresAtMs / 1000);
      const size = sizeBytes === null ? '' : String(sizeBytes);
      const query = new URLSearchParams({
        expires,
        ...(sizeBytes !== null && { size }),
        signature: macOf('PUT', key, [expires, size]),
      });
      return Promise.resolve({
        url: `${publicBaseUrl}/uploads/${key}?${query.toString()}`,
        headers: { 'Content-Type': contentTypeOf(key) },
        expiresAtMs,
      });
    },
    admitsUpload(key, query) {
      const { expires, size, signature, ...rest } = query;
      if (!isStorageKey(key) || !isInTime(expires) || Object.keys(rest).length > 0) return null;
      if (size !== undefined && (typeof size !== 'string' || !/^[1-9]\d{0,11}$/.test(size))) {
        return null;
      }
      if (!isSecret(signature, macOf('PUT', key, [expires, size ?? '']))) return null;
      return { sizeBytes: size === undefined ? null : Number(size) };
    },
  };
}

function isInTime(expires: unknown): expires is string {
  return (
    typeof expires === 'string' &&
    /^[1-9]\d{0,11}$/.test(expires) &&
    Number(expires) * 1000 > Date.now()
  );
}
