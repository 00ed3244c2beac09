/**
 * Embedded storage driver. Files are stored below one directory, and read and uploaded through URLs
 * of the API. These URLs are signed with HMAC-SHA256 over all their terms: method, key, content
 * type, expiry and, for uploads, size.
 */
import { createHmac } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { link, mkdir, open, rm, stat, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { assert } from '../domain/errors.ts';
import { isSecret } from '../platform/secret-comparison.ts';
import { headOf, sniff, sniffBytes } from './media.ts';
import { openSpool } from './spool.ts';
import { contentTypeOf, isStorageKey, untypedExtension, type Storage } from './storage.ts';

interface LocalDiskOptions {
  directory: string;
  secret: string;
  /** Public URL at which the API serves `/files/…` and `/uploads/…`. */
  publicBaseUrl: string;
}

/** Query parameters of a received request for a signed URL. */
type SignedQuery = Readonly<Record<string, string | string[] | undefined>>;

/** Checks of signed URLs, for the API routes of the embedded storage. */
export interface SignedUrls {
  /** Returns whether the signature of a read URL is valid and has not expired. */
  admitsRead: (key: string, query: SignedQuery) => boolean;
  /**
   * Returns the size in bytes that an upload URL allows (null: any size); null instead of the
   * object if the URL is invalid or expired.
   */
  admitsUpload: (key: string, query: SignedQuery) => { sizeBytes: number | null } | null;
}

/** Storage on the local disk, and the checks of its signed URLs. */
export type LocalDisk = Storage & SignedUrls;

/** Opens the storage in a directory, which is created if it does not exist. */
export async function openLocalDisk(options: LocalDiskOptions): Promise<LocalDisk> {
  const spoolPath = await openSpool(options.directory);
  return { spoolPath, ...objectsBelow(options.directory), ...signedUrls(options) };
}

type Objects = Pick<Storage, 'put' | 'size' | 'open' | 'remove'>;

function objectsBelow(directory: string): Objects {
  function pathOf(key: string): string {
    assert(isStorageKey(key), 'the storage key has the form that the gateway generates');
    return join(directory, 'objects', key);
  }

  async function size(key: string): Promise<number | null> {
    try {
      return (await stat(pathOf(key))).size;
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return null;
      throw error;
    }
  }

  return {
    size,
    async put(key, spoolPath) {
      const path = pathOf(key);
      await mkdir(dirname(path), { recursive: true });
      // The file is synchronized to the disk first, because the customer is charged right after
      // `put`.
      const file = await open(spoolPath, 'r+');
      try {
        await file.sync();
      } finally {
        await file.close();
      }
      // `link` is atomic and never replaces a file: of two simultaneous writers, one stores its
      // complete file.
      const stored = await link(spoolPath, path).then(
        () => 'stored' as const,
        (error: unknown) => {
          if (hasCode(error, 'EEXIST')) return 'exists' as const;
          throw error;
        },
      );
      await unlink(spoolPath);
      return stored;
    },
    async open(key, range) {
      const sizeBytes = await size(key);
      if (sizeBytes === null) return null;
      // The type of a file that was uploaded without a type is detected from its first bytes.
      const sniffed = key.endsWith(`.${untypedExtension}`)
        ? await sniff(await headOf(pathOf(key), sniffBytes))
        : undefined;
      const contentType = sniffed?.contentType ?? contentTypeOf(key);
      const bounds = range ? { start: range.first, end: range.last } : {};
      return { stream: createReadStream(pathOf(key), bounds), sizeBytes, contentType };
    },
    remove: (key) => rm(pathOf(key), { force: true }),
  };
}

function signedUrls({
  secret,
  publicBaseUrl,
}: LocalDiskOptions): SignedUrls & Pick<Storage, 'urlOf' | 'signUpload' | 'keyOf' | 'isSigned'> {
  const readBase = new URL(`${publicBaseUrl}/files/`);

  /**
   * Returns the MAC over all terms of a URL; the content type follows only from the extension of
   * the key.
   */
  const macOf = (method: 'GET' | 'PUT', key: string, terms: string[]): string =>
    createHmac('sha256', secret)
      .update([method, key, contentTypeOf(key), ...terms].join('\n'))
      .digest('base64url');

  const keyOf: Storage['keyOf'] = (url) => {
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

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
