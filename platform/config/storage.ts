/** Where media is kept, and how long signed URLs of it work. */
import { z } from 'zod';
import { count } from './values.ts';

/** See the file's head. */
export const storageVariables = {
  /** `local`: files below STORAGE_DIR, served by the API; `s3`: any S3-compatible store. */
  STORAGE_DRIVER: z.enum(['local', 's3']).default('local'),
  /** Objects of the local driver; with both drivers, files on their way into the storage. */
  STORAGE_DIR: z.string().min(1).default('.data/storage'),
  S3_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  S3_REGION: z.string().min(1).optional(),
  S3_BUCKET: z
    .string()
    .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket')
    .optional(),
  S3_ACCESS_KEY_ID: z.string().min(1).optional(),
  S3_SECRET_ACCESS_KEY: z.string().min(1).optional(),
  /** The endpoint as callers and providers reach it, when that is not S3_ENDPOINT. */
  S3_PUBLIC_BASE_URL: z.url({ protocol: /^https?$/ }).optional(),
  /** How long a signed upload URL takes its file: ten minutes at most. */
  UPLOAD_URL_TTL_MS: count(1000, 600_000).default(600_000),
  /** How long the public URL of an upload reads: seven days at most (the most S3 signs for). */
  UPLOAD_READ_TTL_MS: count(60_000, 604_800_000).default(604_800_000),
  /** Bytes of its own files that an organization may keep; what its open upload URLs admit counts. */
  UPLOAD_BYTES_MAX: count(1, 1_000_000_000_000_000).default(50 * 1024 ** 3),
  /** How long a file is kept that no request names: longer than any job may need it. */
  UPLOAD_KEPT_MS: count(86_400_000 * 2, 86_400_000 * 3650).default(86_400_000 * 30),
};

/** What STORAGE_DRIVER=s3 cannot do without. */
export const s3Variables = [
  'S3_ENDPOINT',
  'S3_REGION',
  'S3_BUCKET',
  'S3_ACCESS_KEY_ID',
  'S3_SECRET_ACCESS_KEY',
] as const;
