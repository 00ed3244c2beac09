/** OpenAI's image provider of the sandbox, served under `/openai/v1/images/`. */
import { randomBytes } from 'node:crypto';
import { CallRejectedError, type Dialect } from '../calls/call.ts';
import { callRoutes, type CallServerOptions } from '../calls/serve-call.ts';
import type { Route } from '../http.ts';
import type { MediaSize } from '../media/media.ts';
import { createPictures } from '../media/pictures.ts';
import { failure, errorBody } from './failures.ts';
import { editEndpoint, generationEndpoint } from './images.ts';

interface OpenAiOptions extends CallServerOptions {
  /** API key that requests must send as `Authorization: Bearer …`. */
  apiKey: string;
  mediaSize: MediaSize;
}

/** Returns the routes of OpenAI's images. */
export function openAiRoutes(options: OpenAiOptions): Route[] {
  const { apiKey, mediaSize } = options;
  const pictures = createPictures(mediaSize);
  const dialect: Dialect = {
    createRequestId: () => `req_${randomBytes(16).toString('hex')}`,
    isAuthorized: ({ headers }) => headers.authorization === `Bearer ${apiKey}`,
    unauthorized: new CallRejectedError(401, {
      code: 'invalid_api_key',
      message: 'Incorrect API key provided.',
    }),
    headers: (requestId) => ({ 'x-request-id': requestId, 'openai-version': '2020-10-01' }),
    failure,
    errorBody,
  };
  return callRoutes([generationEndpoint(pictures), editEndpoint(pictures)], options, dialect);
}
