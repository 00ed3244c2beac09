/** The storage, described (spec §4.5, design §7). */
import { z } from 'zod';
import { uploadUrlRequest } from '../routes/uploads.ts';
import type { Operation } from './operation.ts';

const uploadUrl = z
  .object({
    fileId: z.string().meta({ description: 'May be given where a request takes a `fileId`.' }),
    uploadUrl: z.url(),
    method: z.literal('PUT'),
    headers: z
      .record(z.string(), z.string())
      .meta({ description: 'To be sent exactly so with the file.' }),
    publicUrl: z.url().meta({ description: 'Reads the file for seven days, without a key.' }),
    url: z.url().meta({ description: 'The same as `publicUrl`.' }),
    storagePath: z.string(),
    maxBytes: z.int(),
    expiresAt: z.iso.datetime().meta({ description: 'Until then the file is taken, once.' }),
  })
  .meta({ id: 'UploadUrl' });

/** upload-url. */
export const storageOperations: readonly Operation[] = [
  {
    method: 'post',
    path: '/api/v1/storage/upload-url',
    id: 'createUploadUrl',
    tag: 'Storage',
    summary: 'Get a signed URL to upload a file',
    description:
      'The URL takes one PUT of exactly the size and type that were named, and nothing else. ' +
      'Images up to 25 MB, audio up to 100 MB, video up to 200 MB. ' +
      'An organization may keep so many bytes (`storage` of /usage); a file that no request names for ' +
      '30 days (configurable) is removed.',
    scope: 'storage:write',
    body: {
      required: false,
      content: {
        'application/json': {
          schema: uploadUrlRequest,
          example: { filename: 'cat.png', contentType: 'image/png', size: 48_213 },
        },
      },
    },
    answers: {
      200: {
        description: 'Where to put the file, and where it is read.',
        content: { type: 'application/json', schema: uploadUrl },
      },
    },
    errors: [
      'INVALID_REQUEST',
      'FILE_TOO_LARGE',
      'PAYLOAD_TOO_LARGE',
      'UNSUPPORTED_MEDIA_TYPE',
      'ORGANIZATION_SUSPENDED',
      'STORAGE_QUOTA_EXCEEDED',
    ],
  },
];
