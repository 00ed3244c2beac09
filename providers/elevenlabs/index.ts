/**
 * Adapter for ElevenLabs: speech, dialogue, music, sound effects and transcription. The response to
 * a call contains the result. ElevenLabs queues no operations, so the outcome of a call whose
 * connection is lost remains unknown. The adapter uses undici instead of the vendor's client, which
 * buffers and retries (docs/providers.md).
 */
import { openAsBlob } from 'node:fs';
import { rm } from 'node:fs/promises';
import { FormData } from 'undici';
import { z } from 'zod';
import type { JsonObject } from '../../domain/json.ts';
import { writeSpoolFile } from '../../storage/spool.ts';
import type { Storage } from '../../storage/storage.ts';
import {
  contentPolicyFailure,
  toStatusFailure,
  readErrorBody,
  readInvalidFields,
  findRequestId,
} from '../error-responses.ts';
import {
  createExchange,
  createProviderAgent,
  sendCall,
  type ProviderResponse,
} from '../provider-http.ts';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import { defineProvider, type Provider, type ProviderResult } from '../provider.ts';
import { count, providerKey, webUrl } from '../../platform/variable-types.ts';
import { readAudio, readPlan, readSong, readTranscript } from './results.ts';

interface ElevenlabsOptions {
  apiKey: string;
  /** Base URL of the API, e.g. https://api.elevenlabs.io */
  baseUrl: string;
  /** Storage of the files that are sent to the provider. */
  storage: Storage;
}

/**
 * Query parameter that sets the audio format. The same format is requested for all audio, so that
 * the parts of a dialogue can be joined.
 */
const audioQuery = '?output_format=mp3_44100_128';

/** Endpoint of ElevenLabs. `read` reads its response; `form` is true if its body is multipart. */
interface Endpoint {
  path: (input: JsonObject) => string;
  read: (response: ProviderResponse) => Promise<ProviderResult>;
  form?: true;
}

const endpoints: Readonly<Record<string, Endpoint>> = {
  'text-to-speech': {
    path: (input) => `/v1/text-to-speech/${z.string().parse(input['voice_id'])}${audioQuery}`,
    read: readAudio,
  },
  'text-to-dialogue': { path: () => `/v1/text-to-dialogue${audioQuery}`, read: readAudio },
  'sound-generation': { path: () => `/v1/sound-generation${audioQuery}`, read: readAudio },
  music: { path: () => `/v1/music${audioQuery}`, read: readAudio },
  'music/detailed': { path: () => `/v1/music/detailed${audioQuery}`, read: readSong },
  'music/plan': { path: () => '/v1/music/plan', read: readPlan },
  'speech-to-text': { path: () => '/v1/speech-to-text', read: readTranscript, form: true },
};

/** Creates the adapter for ElevenLabs. */
function createElevenlabsProvider(options: ElevenlabsOptions): Provider {
  // There are no connection timeouts, because ElevenLabs generates a whole song before it sends the
  // first byte. The caller's signal ends the wait.
  const exchange = createExchange(createProviderAgent({ headersTimeout: 0, bodyTimeout: 0 }), {
    'xi-api-key': options.apiKey,
  });
  const base = options.baseUrl.replace(/\/$/, '');
  return {
    name: 'elevenlabs',
    operations: null,
    async submit({ providerEndpoint, input, idempotencyKey, signal }) {
      const endpoint = endpoints[providerEndpoint];
      if (!endpoint)
        throw new ProviderFailure('not_accepted', `unknown endpoint ${providerEndpoint}`);
      const form = endpoint.form ? await createForm(input, options.storage) : null;
      // The voice id is part of the path. All other input fields form the body.
      const { voice_id: _, ...json } = input;
      let response: ProviderResponse;
      try {
        const pendingResponse = exchange({
          ...(form ? { body: form.form } : { json }),
          url: base + endpoint.path(input),
          // The idempotency key only helps the provider's support to find the call. The provider
          // does not use it to detect repeated calls.
          headers: { 'idempotency-key': idempotencyKey },
          signal,
        });
        response = await sendCall(pendingResponse);
      } finally {
        await form?.discard();
      }
      if (response.status !== 200) throw await toSubmitFailure(response);
      const providerRequestId = findRequestId(response.headers);
      return { kind: 'result', result: await endpoint.read(response), providerRequestId };
    },
  };
}

/** Schema of the documented error body of ElevenLabs. */
const errorBody = z.object({
  detail: z.object({ status: z.string().nullish(), code: z.string().nullish() }),
});
/**
 * Error codes for problems with the gateway's account at the provider. The provider generated
 * nothing, and another provider may accept the call.
 */
const accountCodes = new Set(['quota_exceeded', 'invalid_api_key', 'missing_permissions']);
/**
 * Error codes of the content filters. The code `bad_prompt` is for a song prompt that names an
 * artist.
 */
const policyCodes = new Set([
  'content_against_policy',
  'content_policy_violation',
  'bad_prompt',
  'bad_composition_plan',
  'blocked_by_moderation',
]);
/**
 * Delay before the next attempt after the provider has reported too many concurrent requests, in
 * milliseconds.
 */
const busyWaitMs = 3000;

async function toSubmitFailure(response: ProviderResponse): Promise<ProviderFailure> {
  const { status } = response;
  const body = await readErrorBody(response);
  const detail = errorBody.safeParse(body).data?.detail;
  const code = detail?.status ?? detail?.code ?? '';
  if (policyCodes.has(code)) return contentPolicyFailure(response, { errorType: code });
  if (status !== 429 && accountCodes.has(code)) {
    const message = `the provider did not accept the call (${status})`;
    const providerRequestId = findRequestId(response.headers);
    return new ProviderFailure('misconfigured', message, {
      providerRequestId,
      providerErrorType: code,
    });
  }
  const { fields, types } = readInvalidFields(body);
  return toStatusFailure(response, {
    fields,
    errorType: code || types.find(Boolean),
    isOwnError: code !== '',
    ...(status === 429 && { busyWaitMs }),
  });
}

const formTexts = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]));
/** File of a call; a plan of before the type was added has none. */
const fileShape = z.object({
  storageKey: z.string(),
  name: z.string(),
  type: z.string().optional(),
});

/**
 * Creates the multipart form of a call. The stored file in `file` is first copied to the local
 * disk, so that an unreadable file cannot interrupt a call while it is sent. All other values
 * become text fields. The caller must call `discard` after the form is sent.
 * @throws ProviderFailure `rejected` if the file no longer exists; `not_accepted` if it cannot be
 * read now
 */
async function createForm(
  input: JsonObject,
  storage: Storage,
): Promise<{ form: FormData; discard: () => Promise<void> }> {
  const { file, ...texts } = input;
  const form = new FormData();
  for (const [name, value] of Object.entries(formTexts.parse(texts))) form.set(name, String(value));
  const path = await storage.spoolPath();
  const discard = (): Promise<void> => rm(path, { force: true });
  if (file === undefined) return { form, discard };
  const { storageKey, name, type } = fileShape.parse(file);
  try {
    const object = await storage.open(storageKey);
    if (!object) throw new ProviderFailure('rejected', 'the input file no longer exists');
    await writeSpoolFile(path, object.stream);
    form.set('file', await openAsBlob(path, { type: type ?? object.contentType }), name);
    return { form, discard };
  } catch (cause) {
    await discard();
    if (cause instanceof ProviderFailure) throw cause;
    throw new ProviderFailure('not_accepted', 'the input file cannot be read now', { cause });
  }
}

export default defineProvider({
  name: 'elevenlabs',
  variables: {
    ELEVENLABS_API_KEY: providerKey.optional(),
    ELEVENLABS_BASE_URL: webUrl.default('https://api.elevenlabs.io'),
    /**
     * Maximum number of simultaneous calls per worker process. It is small, because the provider
     * limits the simultaneous calls of the whole account.
     */
    ELEVENLABS_CONCURRENCY: count(1, 2000).default(5),
  },
  key: 'ELEVENLABS_API_KEY',
  traits: { notifies: false, submitTimeoutMs: 300_000 },
  concurrency: (settings) => settings.ELEVENLABS_CONCURRENCY,
  create: (settings, { storage, apiKey }) =>
    createElevenlabsProvider({
      apiKey,
      baseUrl: settings.ELEVENLABS_BASE_URL,
      storage,
    }),
  sandbox: (url) => ({ ELEVENLABS_BASE_URL: `${url}/elevenlabs` }),
});
