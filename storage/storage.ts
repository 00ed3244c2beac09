/**
 * The storage port: artifacts and uploads are files under keys that the gateway makes. A key is
 * written once; reads and uploads use URLs that expire.
 */
import type { Readable } from 'node:stream';
import { mediaTypes } from './media.ts';

/** An object that was read. */
export interface StoredObject {
  stream: Readable;
  /** Size of the whole object, also for a range. */
  sizeBytes: number;
  contentType: string;
}

/** A byte range, both ends included. */
export interface ByteRange {
  first: number;
  last: number;
}

/** Permissions of a signed upload: one PUT of this key. */
interface UploadTerms {
  key: string;
  /** Exact number of bytes; null if the caller did not name it. */
  sizeBytes: number | null;
  ttlMs: number;
}

/** URL to PUT a file to, with the headers that the request must contain. */
interface SignedUpload {
  url: string;
  headers: Record<string, string>;
  /** Unix milliseconds. */
  expiresAtMs: number;
}

/** Blob storage. */
export interface Storage {
  /** Names a new file to write before `put`. The caller removes it, unless `put` moves it. */
  spoolPath: () => Promise<string>;
  /**
   * Moves a spooled file under a key. The first write wins: an existing object stays unchanged.
   * @throws Error if the storage cannot store it now
   */
  put: (key: string, spoolPath: string) => Promise<'stored' | 'exists'>;
  /** Reads an object; null if there is none. */
  size: (key: string) => Promise<number | null>;
  open: (key: string, range?: ByteRange) => Promise<StoredObject | null>;
  /** Removes an object; a missing one is no error. */
  remove: (key: string) => Promise<void>;
  /** Makes a URL that reads the object for `ttlMs` milliseconds, at most seven days. */
  urlOf: (key: string, ttlMs: number) => Promise<string>;
  /** Makes a URL for one upload. */
  signUpload: (terms: UploadTerms) => Promise<SignedUpload>;
  /** Returns the key that a URL of this storage reads; null for any other URL. */
  keyOf: (url: URL) => string | null;
}

/** Longest validity of a URL that reads: the limit of Signature Version 4. */
export const urlTtlMaxMs = 7 * 24 * 3_600_000;

/** Extension of a key whose file type is unknown before the upload. */
export const untypedExtension = 'bin';

/** Content types by extension, of all stored media. */
const contentTypes: Readonly<Record<string, string>> = {
  ...Object.fromEntries(mediaTypes.map((type) => [type.extension, type.contentType])),
  // Types that only providers deliver; callers may not upload them.
  json: 'application/json',
};

/** Returns the content type of a key's extension. */
export function contentTypeOf(key: string): string {
  return contentTypes[key.slice(key.lastIndexOf('.') + 1)] ?? 'application/octet-stream';
}

/**
 * Format `organization/job/call-output.ext`: only keys that the gateway makes, so no path traversal
 * is possible.
 */
const keyForm = /^org_[0-9a-f]{32}\/(job|file)_[0-9a-f]{32}(\/\d{1,3}-\d{1,3})?\.[a-z0-9]{2,4}$/;

/** Returns whether a text has the form of a storage key. */
export function isStorageKey(word: string): boolean {
  return keyForm.test(word);
}
