/**
 * ElevenLabs: speech, dialogue, music, sound effects, transcription. Every call is answered with its
 * result; nothing is queued, so a broken connection leaves the outcome unknown for good. Written on
 * undici and not on the vendor's client, which buffers and retries (docs/providers.md).
 */
import { Readable } from 'node:stream';
import { z } from 'zod';
import type { JsonObject } from '../../../domain/json.ts';
import type { StoredObject } from '../../storage/storage.ts';
import {
  ProviderFailure,
  type Provider,
  type ProviderResult,
  type Submission,
} from '../provider.ts';
import { failureOfTransport } from '../transport-failures.ts';
import { readDetailedSong } from './detailed-song.ts';
import { failureOfAnswer } from './elevenlabs-failures.ts';
import {
  createElevenlabsExchange,
  readJson,
  type ElevenlabsAnswer,
  type ElevenlabsBody,
  type ElevenlabsExchange,
} from './elevenlabs-http.ts';
import { transcriptOf } from './transcript.ts';

interface ElevenlabsOptions {
  apiKey: string;
  /** e.g. https://api.elevenlabs.io */
  baseUrl: string;
  /** Opens a stored file that is to be sent along. */
  openFile: (storageKey: string) => Promise<StoredObject | null>;
}

/** All audio is asked for in one format, so that parts of a dialogue can be joined. */
const audioQuery = '?output_format=mp3_44100_128';
const audioType = 'audio/mpeg';
/** Plans are small; one that is not does not belong into a workflow's history. */
const planBytesMax = 48 * 1024;
const transcriptBytesMax = 16 * 1024 * 1024;

/** One operation: its path, its body, and what its answer means. */
interface Endpoint {
  path: (input: JsonObject) => string;
  read: (answer: ElevenlabsAnswer) => Promise<ProviderResult>;
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
export function createElevenlabsProvider(options: ElevenlabsOptions): Provider {
  const exchange = createElevenlabsExchange(options);
  return {
    name: 'elevenlabs',
    queue: null,
    async submit(submission) {
      const endpoint = endpoints[submission.operation];
      if (!endpoint) {
        throw new ProviderFailure('not_accepted', `no operation ${submission.operation}`);
      }
      const body = endpoint.form
        ? await formOf(submission.input, options.openFile)
        : jsonBody(submission.input);
      const answer = await send(exchange, {
        submission,
        path: endpoint.path(submission.input),
        body,
      });
      return { kind: 'result', result: await endpoint.read(answer) };
    },
  };
}

interface Sending {
  submission: Submission;
  path: string;
  body: ElevenlabsBody;
}

async function send(exchange: ElevenlabsExchange, sending: Sending): Promise<ElevenlabsAnswer> {
  const { submission, path, body } = sending;
  let answer: ElevenlabsAnswer;
  try {
    answer = await exchange({
      path,
      body,
      idempotencyKey: submission.idempotencyKey,
      signal: submission.signal,
    });
  } catch (error) {
    throw failureOfTransport(error);
  }
  if (answer.status !== 200) throw await failureOfAnswer(answer);
  return answer;
}

/** The voice is part of the path; all else is the body. */
function jsonBody(input: JsonObject): ElevenlabsBody {
  const { voice_id: _, ...json } = input;
  return { kind: 'json', json };
}

const formTexts = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]));
const fileShape = z.object({ storageKey: z.string(), name: z.string() });

/** Texts become fields; `file` names a stored file, which is streamed. */
async function formOf(
  input: JsonObject,
  openFile: ElevenlabsOptions['openFile'],
): Promise<ElevenlabsBody> {
  const { file: wanted, ...texts } = input;
  const fields = Object.fromEntries(
    Object.entries(formTexts.parse(texts)).map(([name, value]) => [name, String(value)]),
  );
  if (wanted === undefined) return { kind: 'form', fields, file: null };
  const { storageKey, name } = fileShape.parse(wanted);
  const object = await openFile(storageKey).catch((cause: unknown) => {
    throw new ProviderFailure('not_accepted', 'the file cannot be read now', { cause });
  });
  if (!object) throw new ProviderFailure('rejected', 'the file is gone');
  return { kind: 'form', fields, file: { ...object, name } };
}

function readAudio(answer: ElevenlabsAnswer): Promise<ProviderResult> {
  return Promise.resolve({ outputs: [audioOf(answer.body)], data: null });
}

async function readSong(answer: ElevenlabsAnswer): Promise<ProviderResult> {
  const { audio, title, lyrics } = await readDetailedSong(answer);
  return { outputs: [audioOf(audio)], data: { title, lyrics } };
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

async function readPlan(answer: ElevenlabsAnswer): Promise<ProviderResult> {
  const parsed = planShape.safeParse(await paidJson(answer, planBytesMax));
  if (!parsed.success) throw new ProviderFailure('failed', 'the provider answered without a plan');
  return { outputs: [], data: parsed.data };
}

async function readTranscript(answer: ElevenlabsAnswer): Promise<ProviderResult> {
  const transcript = transcriptOf(await paidJson(answer, transcriptBytesMax));
  if (!transcript) {
    throw new ProviderFailure('failed', 'the provider answered without a transcript');
  }
  const { language, durationSeconds } = transcript;
  const stream = Readable.from([Buffer.from(JSON.stringify(transcript))], { objectMode: false });
  return {
    outputs: [{ kind: 'stream', stream, contentType: 'application/json' }],
    data: { language, durationSeconds },
    seconds: durationSeconds,
  };
}

function audioOf(stream: Readable): ProviderResult['outputs'][number] {
  return { kind: 'stream', stream, contentType: audioType };
}

/** An answer that breaks off was paid for and cannot be had again. */
async function paidJson(answer: ElevenlabsAnswer, bytesMax: number): Promise<unknown> {
  try {
    return await readJson(answer.body, bytesMax);
  } catch (cause) {
    throw new ProviderFailure('failed', 'the provider broke off', { cause });
  }
}
