/** Choice of the storage driver by the configuration. */
import { assert } from '../domain/errors.ts';
import { pathError } from '../platform/config-error.ts';
import type { Config } from '../platform/config.ts';
import { openLocalDisk } from './local-disk.ts';
import { createAwsCredentials, type S3Credentials } from './s3-credentials.ts';
import { openS3 } from './s3.ts';
import { createSignedUrls, type SignedUrls } from './signed-urls.ts';
import type { Storage } from './storage.ts';

/** Storage, and its URLs that the API serves. */
export interface OpenStorage {
  storage: Storage;
  /** Checks of the storage's URLs that the API serves; null if the store serves all of them. */
  signedUrls: SignedUrls | null;
  /**
   * Returns the URL of the store to which the API redirects a valid read URL; null if the API sends
   * the file itself.
   */
  redirectOf: ((key: string) => Promise<string>) | null;
}

/** Lifetime of the URLs to which the API redirects, in milliseconds. */
const redirectTtlMs = 300_000;

/**
 * Opens the storage of the configured driver.
 * @throws ConfigError if STORAGE_DIR cannot be used
 */
export async function openStorage(config: Config, publicBaseUrl: string): Promise<OpenStorage> {
  const urls = { secret: config.STORAGE_SECRET, publicBaseUrl };
  if (config.STORAGE_DRIVER === 'local') {
    const disk = await openLocalDisk({ ...urls, directory: config.STORAGE_DIR }).catch(refusePath);
    return { storage: disk, signedUrls: disk, redirectOf: null };
  }
  const region = present(config.S3_REGION);
  const isIssued = config.S3_CREDENTIALS === 'aws';
  const readCredentials = isIssued ? await createAwsCredentials(region) : fixedKeys(config);
  const s3 = await openS3({
    endpoint: present(config.S3_ENDPOINT),
    publicBaseUrl: config.S3_PUBLIC_BASE_URL,
    region,
    bucket: present(config.S3_BUCKET),
    readCredentials,
    spoolDirectory: config.STORAGE_DIR,
  }).catch(refusePath);
  if (!isIssued) return { storage: s3, signedUrls: null, redirectOf: null };
  // Issued credentials expire after hours and their URLs with them, so read URLs are those of the
  // API, which redirects to a new URL of the store.
  const signedUrls = createSignedUrls(urls);
  const { urlOf, keyOf, isSigned } = signedUrls;
  return {
    storage: { ...s3, urlOf, keyOf, isSigned },
    signedUrls,
    redirectOf: (key) => s3.urlOf(key, redirectTtlMs),
  };
}

/** Both drivers create the spool below STORAGE_DIR. */
function refusePath(error: unknown): never {
  throw pathError('STORAGE_DIR', error);
}

function fixedKeys(config: Config): () => Promise<S3Credentials> {
  const accessKeyId = present(config.S3_ACCESS_KEY_ID);
  const secretAccessKey = present(config.S3_SECRET_ACCESS_KEY);
  return () => Promise.resolve({ accessKeyId, secretAccessKey });
}

function present(value: string | undefined): string {
  assert(value, 'the configuration of the s3 driver is complete');
  return value;
}
