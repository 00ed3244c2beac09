/** OpenAI's images in the sandbox: `/openai/v1/images/*`. */
import { randomBytes } from 'node:crypto';
import { CallRefusedError, type Dialect } from '../calls/call.ts';
import { callRoutes, type CallServerOptions } from '../calls/serve-call.ts';
import type { Route } from '../http.ts';
import type { MediaSize } from '../media/media.ts';
import { createPictures } from '../media/pictures.ts';
import { failure, wording } from './failures.ts';
import { editEndpoint, generationEndpoint } from './images.ts';

interface OpenAiOptions extends CallServerOptions {
  /** Key of `Authorization: Bearer …`. */
  apiKey: string;
  mediaSize: MediaSize;
}

/** OpenAI's routes. */
export function openAiRoutes(options: OpenAiOptions): Route[] {
  const { apiKey, mediaSize } = options;
  const pictures = createPictures(mediaSize);
  const dialect: Dialect = {
    createRequestId: () => `req_${randomBytes(16).toString('hex')}`,
    isAuthorized: ({ headers }) => headers.authorization === `Bearer ${apiKey}`,
    unauthorized: new CallRefusedError(401, {
      code: 'invalid_api_key',
      message: 'Incorrect API key provided.',
    }),
    headers: (requestId) => ({ 'x-request-id': requestId, 'openai-version': '2020-10-01' }),
    failure,
    wording,
  };
  return callRoutes([generationEndpoint(pictures), editEndpoint(pictures)], options, dialect);
}
