/** Choice of the storage driver by the configuration. */
import { assert } from '../domain/errors.ts';
import type { Config } from '../platform/config.ts';
import { openLocalDisk, type SignedUrls } from './local-disk.ts';
import { openS3, type S3Options } from './s3.ts';
import type { Storage } from './storage.ts';

/** Storage, and the checks of its signed URLs if the API serves the files. */
export interface OpenStorage {
  storage: Storage;
  /** Null if the store itself serves the URLs (S3). */
  signedUrls: SignedUrls | null;
}

/** Opens the storage of the configured driver. */
export async function openStorage(config: Config, publicBaseUrl: string): Promise<OpenStorage> {
  if (config.STORAGE_DRIVER === 's3') {
    return { storage: await openS3(s3OptionsOf(config)), signedUrls: null };
  }
  const disk = await openLocalDisk({
    directory: config.STORAGE_DIR,
    secret: config.STORAGE_SECRET,
    publicBaseUrl,
  });
  return { storage: disk, signedUrls: disk };
}

function present(value: string | undefined): string {
  assert(value, 'the configuration of the s3 driver is complete');
  return value;
}

function s3OptionsOf(config: Config): S3Options {
  return {
    endpoint: present(config.S3_ENDPOINT),
    publicBaseUrl: config.S3_PUBLIC_BASE_URL,
    region: present(config.S3_REGION),
    bucket: present(config.S3_BUCKET),
    accessKeyId: present(config.S3_ACCESS_KEY_ID),
    secretAccessKey: present(config.S3_SECRET_ACCESS_KEY),
    spoolDirectory: config.STORAGE_DIR,
  };
}
