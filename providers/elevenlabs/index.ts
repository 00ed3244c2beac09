/**
 * ElevenLabs: speech, dialogue, music, sound effects, transcription. The response of each call is
 * its result and nothing is queued, so after a broken connection the outcome stays unknown. The
 * adapter uses undici and not the vendor's client, which buffers and retries (docs/providers.md).
 */
import { openAsBlob } from 'node:fs';
import { rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { FormData } from 'undici';
import { z } from 'zod';
import type { JsonObject } from '../../domain/json.ts';
import { writeSpoolFile } from '../../storage/spool.ts';
import type { Storage } from '../../storage/storage.ts';
import {
  againstPolicy,
  failureOfStatus,
  readErrorBody,
  refusedFields,
  createExchange,
  providerAgent,
  readJson,
  sendCall,
  type ProviderAnswer,
} from '../provider-http.ts';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import { defineProvider, type Provider, type ProviderResult } from '../provider.ts';
import { readDetailedSong } from './detailed-song.ts';
import { count } from '../../platform/config-variables.ts';
import type { Transcript } from '../../studio/audio-transcribe.ts';

interface ElevenlabsOptions {
  apiKey: string;
  /** Base URL, e.g. https://api.elevenlabs.io */
  baseUrl: string;
  /** Storage with the files that are sent as form parts. */
  storage: Storage;
}

/** Format of all requested audio: one format, so that the parts of a dialogue can be joined. */
const audioQuery = '?output_format=mp3_44100_128';
/** Longest plan of a song in bytes: larger data does not belong in a workflow's history. */
const planBytesMax = 48 * 1024;
const transcriptBytesMax = 16 * 1024 * 1024;

/** One operation: its path, its body, and the meaning of its response. */
interface Endpoint {
  path: (input: JsonObject) => string;
  read: (answer: ProviderAnswer) => Promise<ProviderResult>;
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

/** The ElevenLabs provider. */
function createElevenlabsProvider(options: ElevenlabsOptions): Provider {
  // No time limit before the first byte, because a song of ten minutes is made first: the caller's
  // signal ends the wait.
  const exchange = createExchange(providerAgent({ headersTimeout: 0, bodyTimeout: 0 }), {
    'xi-api-key': options.apiKey,
  });
  const base = options.baseUrl.replace(/\/$/, '');
  return {
    name: 'elevenlabs',
    queue: null,
    async submit({ operation, input, idempotencyKey, signal }) {
      const endpoint = endpoints[operation];
      if (!endpoint) throw new ProviderFailure('not_accepted', `no operation ${operation}`);
      const form = endpoint.form ? await createForm(input, options.storage) : null;
      // The voice is in the path; all other fields are in the body.
      const { voice_id: _, ...json } = input;
      let answer: ProviderAnswer;
      try {
        const asked = exchange({
          ...(form ? { body: form.form } : { json }),
          url: base + endpoint.path(input),
          // The id identifies this call for the provider's support; the provider does not
          // deduplicate by it.
          headers: { 'idempotency-key': idempotencyKey },
          signal,
        });
        answer = await sendCall(asked);
      } finally {
        await form?.discard();
      }
      if (answer.status !== 200) throw await failureOfAnswer(answer);
      return { kind: 'result', result: await endpoint.read(answer) };
    },
  };
}

/** Documented format of an error. */
const worded = z.object({
  detail: z.object({ status: z.string().nullish(), code: z.string().nullish() }),
});
/**
 * Errors of the account, not of the caller: nothing was made, and another provider may accept the
 * call.
 */
const accountCodes = new Set(['quota_exceeded', 'invalid_api_key', 'missing_permissions']);
/** Error codes of the content filters; a music prompt that names an artist is a `bad_prompt`. */
const policyCodes = new Set([
  'content_against_policy',
  'content_policy_violation',
  'bad_prompt',
  'bad_composition_plan',
  'blocked_by_moderation',
]);
/** Delay when all concurrent requests of the account's plan are in use. */
const busyWaitMs = 3000;

async function failureOfAnswer(answer: ProviderAnswer): Promise<ProviderFailure> {
  const { status } = answer;
  const body = await readErrorBody(answer);
  const detail = worded.safeParse(body).data?.detail;
  const code = detail?.status ?? detail?.code ?? '';
  if (policyCodes.has(code)) return againstPolicy();
  if (status !== 429 && accountCodes.has(code)) {
    return new ProviderFailure('refused', `the provider refused the call (${status})`);
  }
  const { fields } = refusedFields(body);
  return failureOfStatus(answer, {
    fields,
    areOwn: code !== '',
    ...(status === 429 && { busyWaitMs }),
  });
}

const formTexts = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]));
const fileShape = z.object({ storageKey: z.string(), name: z.string() });

/**
 * Makes a form: texts become fields; `file` names a stored file, which is copied first, so that an
 * unreadable file never leaves half a request at the provider. The form keeps its files until it is
 * discarded.
 */
async function createForm(
  input: JsonObject,
  storage: Storage,
): Promise<{ form: FormData; discard: () => Promise<void> }> {
  const { file: wanted, ...texts } = input;
  const form = new FormData();
  for (const [name, value] of Object.entries(formTexts.parse(texts))) form.set(name, String(value));
  const path = await storage.spoolPath();
  const discard = (): Promise<void> => rm(path, { force: true });
  if (wanted === undefined) return { form, discard };
  const { storageKey, name } = fileShape.parse(wanted);
  try {
    const object = await storage.open(storageKey);
    if (!object) throw new ProviderFailure('rejected', 'the file is gone');
    await writeSpoolFile(path, object.stream);
    form.set('file', await openAsBlob(path, { type: object.contentType }), name);
    return { form, discard };
  } catch (cause) {
    await discard();
    if (cause instanceof ProviderFailure) throw cause;
    throw new ProviderFailure('not_accepted', 'the file cannot be read now', { cause });
  }
}

function readAudio(answer: ProviderAnswer): Promise<ProviderResult> {
  return Promise.resolve({ outputs: [{ kind: 'stream', stream: answer.body }], data: null });
}

async function readSong(answer: ProviderAnswer): Promise<ProviderResult> {
  const { audio, title, lyrics } = await readDetailedSong(answer);
  return { outputs: [{ kind: 'stream', stream: audio }], data: { title, lyrics } };
}

const planShape = z.object({
  positive_global_styles: z.array(z.string()),
  negative_global_styles: z.array(z.string()),
  sections: z.array(
    z.object({
      section_name: z.string(),
      positive_local_styles: z.array(z.string()),
      negative_local_styles: z.array(z.string()),
      duration_ms: z.number(),
      lines: z.array(z.string()),
    }),
  ),
});

async function readPlan(answer: ProviderAnswer): Promise<ProviderResult> {
  const parsed = planShape.safeParse(await paidJson(answer, planBytesMax));
  if (!parsed.success) throw new ProviderFailure('failed', 'the provider answered without a plan');
  return { outputs: [], data: parsed.data };
}

async function readTranscript(answer: ProviderAnswer): Promise<ProviderResult> {
  const transcript = transcriptOf(await paidJson(answer, transcriptBytesMax));
  if (!transcript) {
    throw new ProviderFailure('failed', 'the provider answered without a transcript');
  }
  const { language, durationSeconds } = transcript;
  const stream = Readable.from([Buffer.from(JSON.stringify(transcript))], { objectMode: false });
  return {
    outputs: [{ kind: 'stream', stream }],
    data: { language, durationSeconds },
    seconds: durationSeconds,
  };
}

/** A response that breaks off was paid for and cannot be requested again. */
async function paidJson(answer: ProviderAnswer, bytesMax: number): Promise<unknown> {
  try {
    return await readJson(answer.body, bytesMax);
  } catch (cause) {
    throw new ProviderFailure('failed', 'the provider ended its response unexpectedly', { cause });
  }
}

export default defineProvider({
  name: 'elevenlabs',
  variables: {
    ELEVENLABS_API_KEY: z.string().min(8),
    ELEVENLABS_BASE_URL: z.url().default('https://api.elevenlabs.io'),
    /** Concurrent requests that the provider's plan allows. */
    ELEVENLABS_CONCURRENCY: count(1, 2000).default(5),
  },
  key: 'ELEVENLABS_API_KEY',
  traits: { notifies: false, submitTimeoutMs: 300_000 },
  concurrency: (settings) => settings.ELEVENLABS_CONCURRENCY,
  create: (settings, { storage }) =>
    createElevenlabsProvider({
      apiKey: settings.ELEVENLABS_API_KEY,
      baseUrl: settings.ELEVENLABS_BASE_URL,
      storage,
    }),
  sandbox: (url) => ({ ELEVENLABS_BASE_URL: `${url}/elevenlabs` }),
});

const answer = z.object({
  language_code: z.string(),
  text: z.string(),
  audio_duration_secs: z.number().nonnegative().nullish(),
  words: z.array(
    z.object({
      text: z.string(),
      start: z.number().nullish(),
      end: z.number().nullish(),
      type: z.enum(['word', 'spacing', 'audio_event']),
      speaker_id: z.string().nullish(),
    }),
  ),
});

/** Returns `en` for `eng`, so that a recognized language has the same code as a requested one. */
function shortCode(code: string): string {
  try {
    return Intl.getCanonicalLocales(code)[0] ?? code;
  } catch {
    return code;
  }
}

/** Reads the transcript of a response; null if it has none. */
function transcriptOf(body: unknown): Transcript | null {
  const parsed = answer.safeParse(body);
  if (!parsed.success) return null;
  let atSeconds = 0;
  const words = parsed.data.words.map((word): Transcript['words'][number] => {
    // A word without times has the end of the word before it.
    const start = word.start ?? atSeconds;
    const end = word.end ?? start;
    atSeconds = end;
    const { text, type, speaker_id: speaker } = word;
    return { text, start, end, type, ...(speaker && { speakerId: speaker }) };
  });
  return {
    text: parsed.data.text,
    language: shortCode(parsed.data.language_code),
    durationSeconds: parsed.data.audio_duration_secs ?? atSeconds,
    words,
  };
}
