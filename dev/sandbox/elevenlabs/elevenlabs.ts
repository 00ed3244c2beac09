/** The ElevenLabs provider of the sandbox: `/elevenlabs/v1/*`. */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { CallRefusedError, type Dialect } from '../calls/call.ts';
import { callRoutes, type CallServerOptions } from '../calls/serve-call.ts';
import { answerJson, type Route } from '../http.ts';
import { createTones } from '../media/tones.ts';
import { failure, wording } from './failures.ts';
import { musicEndpoints, planEndpoint } from './music.ts';
import { soundEndpoint } from './sound-effects.ts';
import { dialogueEndpoint, speechEndpoint } from './speech.ts';
import { transcriptionEndpoint } from './transcription.ts';
import { voicesAnswer } from './voices.ts';

interface ElevenLabsOptions extends CallServerOptions {
  /** The key that `xi-api-key` must carry. */
  apiKey: string;
  tinyMedia: boolean;
}

function createDialect(apiKey: string): Dialect {
  return {
    createRequestId: () => randomBytes(16).toString('hex'),
    isAuthorized: (request: IncomingMessage) => request.headers['xi-api-key'] === apiKey,
    unauthorized: new CallRefusedError(401, {
      code: 'invalid_api_key',
      message: 'Invalid API key',
    }),
    headers: (requestId) => ({ 'request-id': requestId }),
    failure,
    wording,
  };
}

/** ElevenLabs' routes. */
export function elevenLabsRoutes(options: ElevenLabsOptions): Route[] {
  const { apiKey, tinyMedia, counters } = options;
  const tones = createTones({ tiny: tinyMedia });
  const dialect = createDialect(apiKey);
  const endpoints = [
    speechEndpoint(tones),
    dialogueEndpoint(tones),
    planEndpoint(),
    ...musicEndpoints(tones),
    soundEndpoint(tones),
    transcriptionEndpoint(),
  ];
  const listVoices: Route = {
    method: 'GET',
    pattern: /^\/elevenlabs\/v1\/voices$/,
    handle: (exchange) => {
      const requestId = dialect.createRequestId();
      const headers = dialect.headers(requestId);
      if (dialect.isAuthorized(exchange.request)) {
        answerJson(exchange, { status: 200, body: voicesAnswer(), headers });
        return;
      }
      counters.unauthorized += 1;
      const body = wording(dialect.unauthorized, requestId);
      answerJson(exchange, { status: 401, body, headers });
    },
  };
  return [listVoices, ...callRoutes(endpoints, options, dialect)];
}
