/** Speech to text: generates words that depend on the audio, spread over its actual duration. */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import {
  CallRejectedError,
  buildJsonReply,
  type CallContext,
  type CallEndpoint,
} from '../calls/call.ts';
import { findFault } from '../faults.ts';
import { fetchInput, MediaInputError } from '../media/media.ts';
import { probeDurationSeconds } from '../media/probe.ts';
import { describeForm, readForm, type Form } from '../multipart.ts';
import { invalidBody, invalidField } from './failures.ts';

const flag = z.enum(['true', 'false']).transform((text) => text === 'true');

/** Schema of the form's fields. A repeated field has its last value. */
const transcriptionForm = z.object({
  model_id: z.enum(['scribe_v1', 'scribe_v2']),
  source_url: z.string().optional(),
  cloud_storage_url: z.string().optional(),
  language_code: z.string().optional(),
  diarize: flag.default(false),
  tag_audio_events: flag.default(true),
  timestamps_granularity: z.enum(['none', 'word']).default('word'),
  webhook: flag.default(false),
});
type TranscriptionForm = z.output<typeof transcriptionForm>;

const durationSecondsMin = 0.1;
const wordsPerSecond = 2.5;
const wordsMax = 50_000;
const vocabulary = (
  'the sandbox heard a calm voice tell of rivers and light while seven small boats drift ' +
  'past old stone bridges under quiet morning clouds'
).split(' ');

async function fetchSource(url: string): Promise<Buffer> {
  try {
    return await fetchInput({ field: 'source_url', url });
  } catch (error) {
    if (!(error instanceof MediaInputError)) throw error;
    const message = `The file could not be downloaded: ${error.message}`;
    throw new CallRejectedError(400, { code: 'invalid_url', message, param: 'source_url' });
  }
}

async function readDuration(bytes: Buffer): Promise<number> {
  const durationSeconds = await probeDurationSeconds(bytes);
  if (durationSeconds === undefined) {
    const message = 'The file is not a valid audio or video file.';
    throw new CallRejectedError(400, { code: 'invalid_content', message, param: 'file' });
  }
  if (durationSeconds < durationSecondsMin) {
    const message = 'The audio is too short.';
    throw new CallRejectedError(400, { code: 'audio_too_short', message, param: 'file' });
  }
  return durationSeconds;
}

/** Rounds down to milliseconds, so that no word ends after the audio. */
function toMilliseconds(seconds: number): number {
  return Math.floor(seconds * 1000) / 1000;
}

interface TranscribedWord {
  text: string;
  type: 'word' | 'spacing';
  start: number;
  end: number;
}

/** Generates words, and the spaces between them, for the whole duration. */
function generateWords(bytes: Buffer, durationSeconds: number): TranscribedWord[] {
  const hash = createHash('sha256').update(bytes).digest();
  const count = Math.max(1, Math.min(wordsMax, Math.round(durationSeconds * wordsPerSecond)));
  const slot = durationSeconds / count;
  return Array.from({ length: count }, (_, index) => {
    const pick = hash.readUInt8(index % hash.length) + index * hash.readUInt8(0);
    const word = vocabulary[pick % vocabulary.length] ?? 'the';
    const text = index === 0 ? word.charAt(0).toUpperCase() + word.slice(1) : word;
    const start = toMilliseconds(index * slot);
    const end = toMilliseconds(index * slot + slot * 0.8);
    const transcribed: TranscribedWord = { text, type: 'word', start, end };
    if (index === count - 1) return [{ ...transcribed, text: `${text}.` }];
    const next = toMilliseconds((index + 1) * slot);
    return [transcribed, { text: ' ', type: 'spacing' as const, start: end, end: next }];
  }).flat();
}

async function transcribe(
  bytes: Buffer,
  form: TranscriptionForm,
  { requestId, faults }: CallContext,
) {
  const longer = findFault(faults, 'long-recording')?.argument;
  const durationSeconds = longer === undefined ? await readDuration(bytes) : Number(longer);
  const words = generateWords(bytes, durationSeconds);
  const granularity = form.timestamps_granularity;
  return {
    language_code: form.language_code ?? 'eng',
    language_probability: form.language_code === undefined ? 0.98 : 1,
    text: words.map(({ text }) => text).join(''),
    words: words.map(({ text, type, start, end }) => ({
      text,
      ...(granularity !== 'none' && { start, end }),
      type,
      ...(form.diarize && { speaker_id: 'speaker_0' }),
      logprob: -0.05,
    })),
    transcription_id: requestId,
    audio_duration_secs: durationSeconds,
  };
}

/** Returns a function that loads the audio; the form must have exactly one source. */
function findSource(form: TranscriptionForm, { files }: Form): () => Promise<Buffer> {
  const file = files.find(({ field }) => field === 'file');
  const url = form.source_url ?? form.cloud_storage_url;
  if ((file === undefined) === (url === undefined)) {
    throw invalidField('file', 'Exactly one of file and source_url must be provided');
  }
  return async () => file?.bytes ?? fetchSource(url ?? '');
}

/** Creates the endpoint `POST /v1/speech-to-text`. A file name or source URL may contain a fault marker. */
export function transcriptionEndpoint(): CallEndpoint {
  return {
    path: /^\/elevenlabs\/v1\/speech-to-text$/,
    latencyFactor: 2,
    read: async (exchange) => {
      const form = await readForm(exchange);
      const fields = Object.fromEntries([...form.fields].map(([name, all]) => [name, all.at(-1)]));
      const parsed = transcriptionForm.safeParse(fields);
      const names = form.files.map(({ name }) => name);
      return {
        body: describeForm(form),
        prompt: [...names, fields['source_url'] ?? ''].join(' '),
        check: () => {
          if (!parsed.success) throw invalidBody(parsed.error, fields);
          if (parsed.data.webhook) {
            const message = 'No speech-to-text webhook is configured in this workspace.';
            throw new CallRejectedError(400, { code: 'no_webhooks_configured', message });
          }
          const load = findSource(parsed.data, form);
          return async (context) => {
            return buildJsonReply(await transcribe(await load(), parsed.data, context));
          };
        },
      };
    },
  };
}
