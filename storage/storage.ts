/**
 * The storage port: artifacts and uploads are files under keys that we make. A key is written once;
 * reading and uploading go through URLs that expire.
 */
import type { Readable } from 'node:stream';
import { mediaTypes } from './media.ts';

/** An object that was asked for. */
export interface StoredObject {
  stream: Readable;
  /** Of the whole object, whatever range was asked for. */
  sizeBytes: number;
  contentType: string;
}

/** A byte range, both ends included. */
export interface ByteRange {
  first: number;
  last: number;
}

/** What a signed upload admits: one PUT of this key. */
interface UploadTerms {
  key: string;
  /** Exactly this many bytes; null when the caller did not say. */
  sizeBytes: number | null;
  ttlMs: number;
}

/** A URL to PUT a file to, with the headers that must go with it. */
interface SignedUpload {
  url: string;
  headers: Record<string, string>;
  /** Unix milliseconds. */
  expiresAtMs: number;
}

/** Blob storage. */
export interface Storage {
  /** A new file to write to before `put`. Whoever asks for it removes it, or `put` does. */
  spoolPath: () => Promise<string>;
  /**
   * Moves a spooled file under a key. The first write wins: an object that exists stays as it is.
   * @throws Error when the storage cannot take it now
   */
  put: (key: string, spoolPath: string) => Promise<'stored' | 'exists'>;
  /** Null when there is no such object. */
  size: (key: string) => Promise<number | null>;
  open: (key: string, range?: ByteRange) => Promise<StoredObject | null>;
  /** Removes an object; one that is not there is no error. */
  remove: (key: string) => Promise<void>;
  /** A URL that reads the object for `ttlMs` milliseconds, seven days at most. */
  urlOf: (key: string, ttlMs: number) => Promise<string>;
  /** A URL that takes one upload. */
  signUpload: (terms: UploadTerms) => Promise<SignedUpload>;
  /** The key that a URL of this storage reads; null for any other URL. */
  keyOf: (url: URL) => string | null;
}

/** The longest that a reading URL may live: what Signature Version 4 admits. */
export const urlTtlMaxMs = 7 * 24 * 3_600_000;

/** Extension of a key whose file type was not told before the upload. */
export const untypedExtension = 'bin';

/** Every medium that is stored: extension of the key → content type. */
const contentTypes: Readonly<Record<string, string>> = {
  ...Object.fromEntries(mediaTypes.map((type) => [type.extension, type.contentType])),
  // What providers answer with; not a type that callers may bring.
  json: 'application/json',
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
