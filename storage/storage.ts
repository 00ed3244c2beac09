/**
 * Interface of the object storage. Artifacts and uploads are objects under keys that the gateway
 * generates; each key is written only once, except that a conversion replaces the upload that it
 * converts. Callers and providers read and upload through signed URLs that expire.
 */
import type { Readable } from 'node:stream';
import { mediaTypes } from './media-types.ts';

/** Opened object. */
export interface StoredObject {
  stream: Readable;
  /** Size of the complete object in bytes, even if only a range was requested. */
  sizeBytes: number;
  contentType: string;
}

/** Byte range from `first` to `last`, both included. */
export interface ByteRange {
  first: number;
  last: number;
}

/** Options of a signed read URL. */
export interface ReadUrlOptions {
  /** Time in milliseconds for which the URL stays the same; it expires up to that time later. */
  stepMs?: number;
  /**
   * Header Content-Disposition with which an object store serves the object. URLs of the API need
   * none: the API knows the name of each file.
   */
  disposition?: string;
}

/** Options of a signed upload URL, which accepts one PUT of an object under `key`. */
interface UploadUrlOptions {
  key: string;
  /** Exact size in bytes; null if the caller did not declare it. */
  sizeBytes: number | null;
  ttlMs: number;
}

/** URL that accepts a PUT of a file, with the headers that the request must send. */
interface SignedUpload {
  url: string;
  headers: Record<string, string>;
  /** Expiry of the URL in Unix milliseconds. */
  expiresAtMs: number;
}

/** Blob storage. */
export interface Storage {
  /**
   * Returns the path of a new spool file, which the caller writes and passes to `put`. The caller
   * must remove the file unless `put` has moved it.
   */
  spoolPath: () => Promise<string>;
  /**
   * Stores a spooled file under a key, and removes it from the spool. Returns `exists` if the key
   * already has an object, which is never replaced.
   * @throws Error if the storage cannot store the object
   */
  put: (key: string, spoolPath: string) => Promise<'stored' | 'exists'>;
  /**
   * Checks that objects can be written and read, with an object of its own.
   * @throws Error with the reason
   */
  check: () => Promise<void>;
  /**
   * Replaces the object of a key by a spooled file, and removes the file from the spool. Readers
   * receive the old or the new object, also if the process ends during the call.
   * @throws Error if the storage cannot store the object
   */
  replace: (key: string, spoolPath: string) => Promise<void>;
  /** Returns the size of an object in bytes; null if the object does not exist. */
  size: (key: string) => Promise<number | null>;
  /** Opens an object, or a range of it. Returns null if the object does not exist. */
  open: (key: string, range?: ByteRange) => Promise<StoredObject | null>;
  /** Removes an object. Does nothing if it does not exist. */
  remove: (key: string) => Promise<void>;
  /**
   * Returns a URL that reads the object for `ttlMs` milliseconds, at most seven days.
   */
  urlOf: (key: string, ttlMs: number, options?: ReadUrlOptions) => Promise<string>;
  /** Returns a URL that accepts one upload for at most `ttlMs` milliseconds. */
  signUpload: (options: UploadUrlOptions) => Promise<SignedUpload>;
  /** Returns the key that a URL of this storage refers to; null for any other URL. */
  keyOf: (url: URL) => string | null;
  /**
   * Returns whether a URL of this storage is signed, so that anyone who has it can read it. The
   * local driver verifies the signature here; an S3 store verifies it when the URL is read.
   */
  isSigned: (url: URL) => boolean;
}

/** Driver functions that read and write objects. */
export type StorageObjects = Pick<
  Storage,
  'check' | 'put' | 'replace' | 'size' | 'open' | 'remove'
>;
/** Driver functions that create and recognize signed URLs. */
export type StorageUrls = Pick<Storage, 'urlOf' | 'signUpload' | 'keyOf' | 'isSigned'>;

/** Maximum lifetime of a read URL in milliseconds: the limit of Signature Version 4. */
export const urlTtlMaxMs = 7 * 24 * 3_600_000;

/** Extension of the storage key of an upload whose type was not declared. */
export const untypedExtension = 'bin';

/** Content type of input files of batches, whose lines are JSON. */
export const linesContentType = 'application/jsonl';

/** Content types of stored files, keyed by the extension of the storage key. */
const contentTypes: Readonly<Record<string, string>> = {
  ...Object.fromEntries(mediaTypes.map((type) => [type.extension, type.contentType])),
  // JSON documents from providers; callers cannot upload this type.
  json: 'application/json',
  ndjson: 'application/x-ndjson',
  jsonl: linesContentType,
};

/** Returns the content type of a stored file, according to the extension of its storage key. */
export function contentTypeOf(key: string): string {
  return contentTypes[key.slice(key.lastIndexOf('.') + 1)] ?? 'application/octet-stream';
}

/**
 * Pattern of all storage keys, e.g. `organization/job/call-output.ext`. Excludes path traversal.
 */
const keyPattern =
  /^org_[0-9a-f]{32}\/((job|file)_[0-9a-f]{32}(\/\d{1,3}-\d{1,3})?\.[a-z0-9]{2,5}|archive_\d{1,19}_[0-9a-f]{16}\.ndjson)$/;

/** Returns whether a string is a well-formed storage key. */
export function isStorageKey(text: string): boolean {
  return keyPattern.test(text);
}

/** Failure to download the output of a provider, or to store it. */
export class StorageFailure extends Error {
  override readonly name = 'StorageFailure';
  /**
   * Whether a retry can store the output. False if the provider's bytes are lost, because a second
   * call to the provider would cost twice.
   */
  readonly retryable: boolean;
  /** True if the download from the provider failed; false if the gateway's own storage failed. */
  readonly isDownload: boolean;

  constructor(
    message: string,
    options: { retryable: boolean; isDownload?: boolean; cause?: unknown },
  ) {
    super(message, { cause: options.cause });
    this.retryable = options.retryable;
    this.isDownload = options.isDownload ?? false;
  }
}
