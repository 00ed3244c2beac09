/**
 * GET /files/…: serves stored files by signed URL, without an API key. Files in the embedded
 * storage are sent in the response. For an S3 store whose own URLs would expire too early, the
 * response redirects to a fresh URL.
 */
import { z } from 'zod';
import { buildDisposition } from '../../storage/file-names.ts';
import { GatewayError } from '../../domain/errors.ts';
import { fileAnswers, sendStoredFile } from '../http/stored-file.ts';
import { defineEndpoint, rawResponse } from './endpoint.ts';

/** Error message for a valid signed URL of a missing file. Other URLs get a plain NOT_FOUND. */
const missingFileMessage = 'This file was deleted, or has not been uploaded.';

/** Endpoint that serves the stored files. */
export const files = defineEndpoint({
  route: 'GET /files/*key',
  scope: 'open',
  request: { params: z.object({ key: z.string() }) },
  response: rawResponse,
  responses: {
    200: 'The file.',
    ...fileAnswers,
    302: 'The URL in the Location header serves the file for a few minutes.',
  },
  errors: ['RANGE_NOT_SATISFIABLE'],
  async handle({ ctx, params: { key } }, { storage, storedFiles, signedUrls, redirectUrl }) {
    // If `signedUrls` is undefined, the store serves its own URLs, so every request is rejected
    // here.
    if (!signedUrls?.verifyRead(key, ctx.query)) throw new GatewayError('NOT_FOUND');
    // Allows pages of every origin to embed the file.
    ctx.set('Cross-Origin-Resource-Policy', 'cross-origin');
    if (redirectUrl) {
      ctx.set('Cache-Control', 'private, max-age=60');
      const disposition = buildDisposition(await storedFiles.describe(key));
      ctx.redirect(await redirectUrl(key, disposition));
      return;
    }
    ctx.set({
      'Cache-Control': 'private, max-age=300, immutable',
      // Prevents scripts in the file from running.
      'Content-Security-Policy': "default-src 'none'; sandbox",
    });
    await sendStoredFile(ctx, storage, { key, missingMessage: missingFileMessage });
    const file = await storedFiles.describe(key);
    ctx.set({
      'Content-Type': file.contentType,
      'Content-Disposition': buildDisposition(file),
    });
  },
});
