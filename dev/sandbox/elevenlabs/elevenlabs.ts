/** ElevenLabs provider of the sandbox, served under `/elevenlabs/v1/`. */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { CallRejectedError, type Dialect } from '../calls/call.ts';
import { callRoutes, type CallServerOptions } from '../calls/serve-call.ts';
import type { Route } from '../http.ts';
import type { MediaSize } from '../media/media.ts';
import { createTones } from '../media/tones.ts';
import { failure, errorBody } from './failures.ts';
import { musicEndpoints, planEndpoint } from './music.ts';
import { soundEndpoint } from './sound-effects.ts';
import { dialogueEndpoint, speechEndpoint } from './speech.ts';
import { transcriptionEndpoint } from './transcription.ts';

interface ElevenLabsOptions extends CallServerOptions {
  /** API key that requests must send as `xi-api-key`. */
  apiKey: string;
  mediaSize: MediaSize;
}

function createDialect(apiKey: string): Dialect {
  return {
    createRequestId: () => randomBytes(16).toString('hex'),
    isAuthorized: (request: IncomingMessage) => request.headers['xi-api-key'] === apiKey,
    unauthorized: new CallRejectedError(401, {
      code: 'invalid_api_key',
      message: 'Invalid API key',
    }),
    headers: (requestId) => ({ 'request-id': requestId }),
    failure,
    errorBody,
  };
}

/** Returns the routes of ElevenLabs. */
export function elevenLabsRoutes(options: ElevenLabsOptions): Route[] {
  const { apiKey, mediaSize } = options;
  const tones = createTones(mediaSize);
  const endpoints = [
    speechEndpoint(tones),
    dialogueEndpoint(tones),
    planEndpoint(),
    ...musicEndpoints(tones),
    soundEndpoint(tones),
    transcriptionEndpoint(),
  ];
  return callRoutes(endpoints, options, createDialect(apiKey));
}
