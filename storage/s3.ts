/** Storage driver for S3-compatible stores, with path-style addresses. */
import type { S3Bucket } from './s3-bucket.ts';
import { openS3Objects } from './s3-objects.ts';
import { createPresignedUrls } from './s3-presigned-urls.ts';
import { openSpool } from './spool.ts';
import type { Storage } from './storage.ts';

/** Options of the driver. */
export interface S3Options extends S3Bucket {
  /**
   * Endpoint at which callers and providers reach the store; URLs are signed for this host. Absent:
   * `endpoint`.
   */
  publicBaseUrl?: string | undefined;
  /** Directory in which files are spooled before they are sent. */
  spoolDirectory: string;
}

/** Opens the driver, without a request to the store. */
export async function openS3({ spoolDirectory, ...options }: S3Options): Promise<Storage> {
  const { publicBaseUrl: endpoint = options.endpoint, ...bucket } = options;
  return {
    spoolPath: await openSpool(spoolDirectory),
    ...openS3Objects(bucket),
    // Callers and providers exchange bytes directly with the store.
    ...createPresignedUrls({ ...bucket, endpoint }),
  };
}
