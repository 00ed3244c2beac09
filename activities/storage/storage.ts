/**
 * The storage port: artifacts are files under keys that we make. A key is written once; reading goes
 * through URLs that expire.
 */
import type { Readable } from 'node:stream';

/** An object that was asked for. */
export interface StoredObject {
  stream: Readable;
  sizeBytes: number;
  contentType: string;
}

/** A byte range, both ends included. */
export interface ByteRange {
  first: number;
  last: number;
}

/** Blob storage. */
export interface Storage {
  /** A new file to write to before `put`; on the same disk where the driver has one. */
  spoolPath: () => Promise<string>;
  /**
   * Moves a spooled file under a key. The first write wins: an object that exists stays as it is.
   * @throws Error when the storage cannot take it now
   */
  put: (key: string, spoolPath: string) => Promise<void>;
  /** Null when there is no such object. */
  size: (key: string) => Promise<number | null>;
  open: (key: string, range?: ByteRange) => Promise<StoredObject | null>;
  /** A URL that reads the object for `ttlMs` milliseconds. */
  urlOf: (key: string, ttlMs: number) => string;
}

/** Every medium that is stored: extension of the key → content type. */
export const contentTypes: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  webp: 'image/webp',
  mp3: 'audio/mpeg',
  mp4: 'video/mp4',
};

/** The content type that a key's extension names. */
export function contentTypeOf(key: string): string {
  return contentTypes[key.slice(key.lastIndexOf('.') + 1)] ?? 'application/octet-stream';
}

/** `organization/job/call-output.ext`: only what we make ourselves; no traversal is possible. */
const keyForm = /^org_[0-9a-f]{32}\/(job|file)_[0-9a-f]{32}(\/\d{1,3}-\d{1,3})?\.[a-z0-9]{2,4}$/;

/** Tells whether a word has the form of a storage key. */
export function isStorageKey(word: string): boolean {
  return keyForm.test(word);
}
