/** Opens the storage driver selected by the configuration. */
import type { Logger } from '../platform/logger.ts';
import type { Metrics } from '../platform/metrics.ts';
import type { Storage } from './storage.ts';
import { assert } from '../domain/errors.ts';
import { pathError } from '../platform/variable-types.ts';
import type { Config } from '../platform/config.ts';
import { openLocalDisk } from './local-disk.ts';
import { createAwsCredentials, type S3Credentials, openS3 } from './s3.ts';
import { createSignedUrls, type SignedUrls } from './signed-urls.ts';

/** Wraps a storage so that every write is counted by its outcome, and its errors are logged. */
export function observeStorage(
  storage: Storage,
  { metrics: { storageWrites }, logger }: { metrics: Metrics; logger: Logger },
): Storage {
  async function count<Result>(write: Promise<Result>): Promise<Result> {
    try {
      const result = await write;
      storageWrites.inc({ outcome: 'ok' });
      return result;
    } catch (error) {
      storageWrites.inc({ outcome: 'failed' });
      logger.warn({ error }, 'storage.write_failed');
      throw error;
    }
  }
  return {
    ...storage,
    put: (key, spoolPath) => count(storage.put(key, spoolPath)),
    replace: (key, spoolPath) => count(storage.replace(key, spoolPath)),
  };
}

/** Storage, with the functions that the API needs to serve signed URLs. */
export interface OpenStorage {
  storage: Storage;
  /** Verifies the signed URLs that the API serves; null if the object store serves all of them. */
  signedUrls: SignedUrls | null;
  /**
   * Returns the object store's URL to which the API redirects a valid read URL, with the header
   * Content-Disposition of the file. Null if the API sends the file itself.
   */
  redirectUrl: ((key: string, disposition: string) => Promise<string>) | null;
}

/** Lifetime of the redirect URLs, in milliseconds. */
const redirectTtlMs = 300_000;

/**
 * Opens the configured storage driver.
 * @throws ConfigError if STORAGE_DIR cannot be used
 */
export async function openStorage(config: Config, publicBaseUrl: string): Promise<OpenStorage> {
  const urls = { secret: config.STORAGE_SECRET, publicBaseUrl };
  if (config.STORAGE_DRIVER === 'local') {
    const disk = await openLocalDisk({ ...urls, directory: config.STORAGE_DIR }).catch(
      throwPathError,
    );
    return { storage: disk, signedUrls: disk, redirectUrl: null };
  }
  const region = requireSetting(config.S3_REGION);
  const usesAwsCredentials = config.S3_CREDENTIALS === 'aws';
  const readCredentials = usesAwsCredentials
    ? await createAwsCredentials(region)
    : createFixedCredentials(config);
  const s3 = await openS3({
    endpoint: requireSetting(config.S3_ENDPOINT),
    publicBaseUrl: config.S3_PUBLIC_BASE_URL,
    region,
    bucket: requireSetting(config.S3_BUCKET),
    readCredentials,
    spoolDirectory: config.STORAGE_DIR,
  }).catch(throwPathError);
  const isDirect = config.S3_UPLOADS === 'direct';
  if (!usesAwsCredentials && isDirect) return { storage: s3, signedUrls: null, redirectUrl: null };
  // AWS credentials expire after hours, and so do URLs signed with them. Read URLs therefore point
  // to the API, which redirects each request to a newly signed URL of the store.
  const signedUrls = createSignedUrls(urls);
  const { urlOf, keyOf, isSigned } = signedUrls;
  const { signUpload } = isDirect ? s3 : signedUrls;
  return {
    storage: { ...s3, urlOf, keyOf, isSigned, signUpload },
    signedUrls,
    redirectUrl: (key, disposition) => s3.urlOf(key, redirectTtlMs, { disposition }),
  };
}

/** Throws the configuration error for STORAGE_DIR, in which both drivers create the spool. */
function throwPathError(error: unknown): never {
  throw pathError('STORAGE_DIR', error);
}

function createFixedCredentials(config: Config): () => Promise<S3Credentials> {
  const accessKeyId = requireSetting(config.S3_ACCESS_KEY_ID);
  const secretAccessKey = requireSetting(config.S3_SECRET_ACCESS_KEY);
  return () => Promise.resolve({ accessKeyId, secretAccessKey });
}

function requireSetting(value: string | undefined): string {
  assert(value, 'a setting of the s3 driver is missing');
  return value;
}
