/**
 * Storage port: artifacts and uploads are objects under keys that the gateway generates. A key is
 * written once; callers and providers read and upload through signed URLs that expire.
 */
import type { Readable } from 'node:stream';
import { mediaTypes } from './media-types.ts';

/** Opened object. */
export interface StoredObject {
  stream: Readable;
  /** Size of the complete object in bytes, also if only a range was requested. */
  sizeBytes: number;
  contentType: string;
}

/** Byte range; `first` and `last` are both included. */
export interface ByteRange {
  first: number;
  last: number;
}

/** Terms of a signed upload: one PUT of this key. */
interface UploadTerms {
  key: string;
  /** Exact size in bytes; null if the caller did not declare it. */
  sizeBytes: number | null;
  ttlMs: number;
}

/** URL to which a file is sent with PUT, with the headers that the request must contain. */
interface SignedUpload {
  url: string;
  headers: Record<string, string>;
  /** Expiry of the URL in Unix milliseconds. */
  expiresAtMs: number;
}

/** Blob storage. */
export interface Storage {
  /**
   * Returns the path of a new file to write before `put`. The caller removes the file unless `put`
   * has moved it.
   */
  spoolPath: () => Promise<string>;
  /**
   * Moves a spooled file to a key. An object that exists is not replaced.
   * @throws Error if the storage cannot store the object now
   */
  put: (key: string, spoolPath: string) => Promise<'stored' | 'exists'>;
  /** Returns the size of an object in bytes; null if the object does not exist. */
  size: (key: string) => Promise<number | null>;
  /** Opens an object or a range of it; null if the object does not exist. */
  open: (key: string, range?: ByteRange) => Promise<StoredObject | null>;
  /** Removes an object; does nothing if the object does not exist. */
  remove: (key: string) => Promise<void>;
  /** Returns a URL that reads the object for `ttlMs` milliseconds, at most seven days. */
  urlOf: (key: string, ttlMs: number) => Promise<string>;
  /** Returns a URL that accepts one upload for at most `ttlMs` milliseconds. */
  signUpload: (terms: UploadTerms) => Promise<SignedUpload>;
  /** Returns the key that a URL of this storage reads; null for any other URL. */
  keyOf: (url: URL) => string | null;
  /**
   * Returns whether everyone can read a URL of this storage, because it is signed. The embedded
   * storage verifies the signature here; an S3 store verifies it when the URL is read.
   */
  isSigned: (url: URL) => boolean;
}

/** Functions of a driver that read and write objects. */
export type StorageObjects = Pick<Storage, 'put' | 'size' | 'open' | 'remove'>;
/** Functions that make and recognize signed URLs. */
export type StorageUrls = Pick<Storage, 'urlOf' | 'signUpload' | 'keyOf' | 'isSigned'>;

/** Maximum lifetime of a read URL in milliseconds: the limit of Signature Version 4. */
export const urlTtlMaxMs = 7 * 24 * 3_600_000;

/** Extension of the key of an upload whose type was not declared. */
export const untypedExtension = 'bin';

/** Content types of all stored files, by the extension of the key. */
const contentTypes: Readonly<Record<string, string>> = {
  ...Object.fromEntries(mediaTypes.map((type) => [type.extension, type.contentType])),
  // Documents of providers; callers cannot upload this type.
  json: 'application/json',
};

/** Returns the content type of a key's extension. */
export function contentTypeOf(key: string): string {
  return contentTypes[key.slice(key.lastIndexOf('.') + 1)] ?? 'application/octet-stream';
}

/**
 * Form of all generated keys, e.g. `organization/job/call-output.ext`; it excludes path traversal.
 */
const keyForm = /^org_[0-9a-f]{32}\/(job|file)_[0-9a-f]{32}(\/\d{1,3}-\d{1,3})?\.[a-z0-9]{2,4}$/;

/** Returns whether a text has the form of a storage key. */
export function isStorageKey(text: string): boolean {
  return keyForm.test(text);
}
