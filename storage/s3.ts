/** Storage driver for S3-compatible stores. Uses path-style URLs. */
import type { S3Bucket } from './s3-bucket.ts';
import { openS3Objects } from './s3-objects.ts';
import { createPresignedUrls } from './s3-presigned-urls.ts';
import { openSpool } from './spool.ts';
import type { Storage } from './storage.ts';

export interface S3Options extends S3Bucket {
  /**
   * Endpoint at which callers and providers reach the store; URLs are signed for this host.
   * Defaults to `endpoint`.
   */
  publicBaseUrl?: string | undefined;
  /** Directory in which files are spooled before they are sent to the store. */
  spoolDirectory: string;
}

/** Opens the S3 storage driver. Sends no request to the store. */
export async function openS3({ spoolDirectory, ...options }: S3Options): Promise<Storage> {
  const { publicBaseUrl: endpoint = options.endpoint, ...bucket } = options;
  return {
    spoolPath: await openSpool(spoolDirectory),
    ...openS3Objects(bucket),
    ...createPresignedUrls({ ...bucket, endpoint }),
  };
}
