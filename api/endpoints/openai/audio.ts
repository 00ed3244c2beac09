/**
 * POST /api/v1/audio/…: voiceoverGenerate and audioTranscribe in the format of OpenAI's audio API.
 * Speech is returned as the audio, a transcript as JSON, text or subtitles.
 */
import { z } from 'zod';
import type { JobRecord } from '../../../jobs/records/job-reads.ts';
import { audioModels } from '../../../catalog/audio-models.ts';
import { findByAnyName } from '../../../catalog/vendor-names.ts';
import { fieldError } from '../../../domain/errors.ts';
import { keysOf } from '../../../domain/json.ts';
import { audioTranscribe } from '../../../studio/audio-transcribe.ts';
import { voiceoverGenerate } from '../../../studio/voiceover-generate.ts';
import { receiveForm } from '../../http/multipart.ts';
import { parseWith } from '../../http/parsing.ts';
import { type ReadRequestOf, storedRecording } from '../../studio/request-reading.ts';
import { defineEndpoint, ownAnswer } from '../endpoint.ts';
import { bareHeaders, studioHeaders, fileErrors } from '../studio.ts';
import {
  artifactsOf,
  bytesOf,
  jobErrors,
  requestOf,
  finishedAnswer,
  sendJson,
  startedJob,
} from './finished-job.ts';

/** Schema of the fields of a transcription's `data` that responses contain. */
const transcriptData = z.object({
  text: z.string(),
  language: z.string(),
  durationSeconds: z.number(),
  words: z.array(
    z.object({ text: z.string(), start: z.number(), end: z.number(), type: z.string() }),
  ),
});
type Transcript = z.infer<typeof transcriptData>;
type Word = Transcript['words'][number];

/** One subtitle; times in seconds from the start of the recording. */
interface Segment {
  id: number;
  start: number;
  end: number;
  text: string;
}

/**
 * Limits of a subtitle: characters on two lines, seconds, and the pause in seconds after which the
 * next one begins.
 */
const segmentCharactersMax = 84;
const segmentSecondsMax = 7;
const pauseSeconds = 1;

/** Transcript formats by the value of `response_format`. */
const transcriptFormats = {
  json: {
    type: 'application/json',
    show: ({ text }: Transcript) => JSON.stringify({ text }),
  },
  verbose_json: {
    type: 'application/json',
    show: ({ text, language, durationSeconds: duration, words }: Transcript) =>
      JSON.stringify({
        task: 'transcribe',
        language,
        duration,
        text,
        words: words
          .filter(({ type }) => type === 'word')
          .map(({ text: word, start, end }) => ({ word, start, end })),
        segments: segmentsOf(words),
      }),
  },
  text: { type: 'text/plain', show: ({ text }: Transcript) => `${text}\n` },
  srt: {
    type: 'text/plain',
    show: ({ words }: Transcript) =>
      segmentsOf(words)
        .map(({ id, start, end, text }) => {
          const time = `${timeOf(start, ',')} --> ${timeOf(end, ',')}`;
          return `${id + 1}\n${time}\n${text}\n\n`;
        })
        .join(''),
  },
  vtt: {
    type: 'text/vtt',
    show: ({ words }: Transcript) =>
      `WEBVTT\n\n${segmentsOf(words)
        .map(({ start, end, text }) => `${timeOf(start, '.')} --> ${timeOf(end, '.')}\n${text}\n\n`)
        .join('')}`,
  },
} as const;

/**
 * Groups words into subtitles. A subtitle ends with a sentence, before a pause, or at its limits of
 * length and time.
 */
function segmentsOf(words: readonly Word[]): Segment[] {
  const segments: Segment[] = [];
  let open: Word[] = [];
  function close(): void {
    const [first] = open;
    const last = open.at(-1);
    const text = open
      .map((word) => word.text)
      .join('')
      .trim();
    if (first && last && text !== '') {
      segments.push({ id: segments.length, start: first.start, end: last.end, text });
    }
    open = [];
  }
  for (const word of words) {
    const [first] = open;
    const last = open.at(-1);
    if (first && last && word.type === 'word') {
      const length = open.reduce((sum, { text }) => sum + text.length, word.text.length);
      const pause = word.start - last.end > pauseSeconds;
      const tooLong = length > segmentCharactersMax || word.end - first.start > segmentSecondsMax;
      if (pause || tooLong || /[.!?。！？]$/.test(last.text.trim())) close();
    }
    // A space between words neither ends nor begins a subtitle.
    if (word.type === 'word' || open.length > 0) open.push(word);
    if (word.type === 'word' && /[.!?。！？]$/.test(word.text)) close();
  }
  close();
  return segments;
}

const two = (value: number): string => String(Math.floor(value)).padStart(2, '0');

/** Formats a time in seconds as `01:02:03,456`. */
function timeOf(seconds: number, mark: ',' | '.'): string {
  const ms = Math.round(seconds * 1000);
  const clock = [ms / 3_600_000, (ms / 60_000) % 60, (ms / 1000) % 60].map(two).join(':');
  return clock + mark + String(ms % 1000).padStart(3, '0');
}

const voiceover = audioModels.voiceover;
const titleMax = 120;

const speech = z.object({
  model: z.string().max(256).meta({ example: voiceover.id }),
  input: z.string().max(voiceover.limits.text.max),
  voice: z
    .union([z.string().max(64), z.object({ id: z.string().max(64) }).transform(({ id }) => id)])
    .meta({ description: 'One of the voices of GET /api/v1/studio/voices.' }),
  response_format: z.literal('mp3', 'must be mp3: only mp3 is supported').nullish(),
  stream_format: z.literal('audio', 'must be audio: streaming is not supported').nullish(),
  speed: z.literal(1, 'must be 1: other speeds are not supported').nullish(),
  instructions: z.literal('', 'is not supported: put the instructions into `input`').nullish(),
});

/** Returns the title of a voiceover: the first 120 characters of its text. */
function titleOf(text: string): string {
  return Array.from(text.trim()).slice(0, titleMax).join('') || text;
}

/** Endpoint POST /api/v1/audio/speech. */
export const audioSpeech = defineEndpoint({
  route: 'POST /api/v1/audio/speech',
  scope: 'studio:audio',
  errorShape: 'openai',
  summary: 'Turn text into speech (OpenAI-compatible)',
  description:
    'Creates the same job as POST /api/v1/studio/voiceover/generate, and returns its audio file.',
  request: {
    headers: studioHeaders,
    body: speech,
    example: { model: voiceover.id, input: 'Welcome to the harbour.', voice: 'rachel' },
  },
  answer: ownAnswer,
  answers: {
    200: {
      description: 'The audio file.',
      type: 'audio/mpeg',
      headers: bareHeaders,
      schema: z.string().meta({ format: 'binary' }),
    },
  },
  errors: [...jobErrors, 'NOT_FOUND'],
  async handle({ ctx, body }, services) {
    findByAnyName([voiceover], body.model);
    const { input: text, voice } = body;
    const started = await startedJob(
      ctx,
      {
        capability: voiceoverGenerate,
        readBody: (_, capability) => requestOf(capability, { text, title: titleOf(text), voice }),
      },
      services,
    );
    const job = await started.completed();
    const { stream, sizeBytes, contentType } = await bytesOf(artifactsOf(job)[0], services);
    ctx.type = contentType;
    ctx.length = sizeBytes;
    ctx.body = stream;
  },
});

/** Size limit of a recording in bytes; the same as OpenAI's. */
const bytesMax = 25 * 1024 * 1024;

const fields = {
  model: z.string().max(256).meta({ example: audioModels.transcription.id }),
  language: z.string().max(35).nullish(),
  response_format: z.enum(keysOf(transcriptFormats)).default('json'),
  stream: z
    .literal('false', 'is not supported: streaming is not available for transcripts')
    .nullish(),
};
const form = z.object(fields);
type Format = keyof typeof transcriptFormats;

function readRecording(onFormat: (format: Format) => void): ReadRequestOf {
  return async (ctx, capability, { requestFiles, onReceiving }) => {
    const field = 'file';
    const { texts, files } = await receiveForm(ctx, {
      fields: [field],
      bytesMax,
      requireRoom: requestFiles.requireRoom,
      keep(stream) {
        const receiving = requestFiles.receiveRecording({ field, stream }, ctx.state.caller);
        onReceiving(receiving);
        return receiving;
      },
    });
    const { model, language, response_format: format } = parseWith(form, texts);
    onFormat(format);
    findByAnyName([audioModels.transcription], model);
    const [file] = files;
    if (!file) throw fieldError('INVALID_REQUEST', field, 'is required');
    const fileName = file.name === '' ? {} : { fileName: file.name.slice(0, 255) };
    const spoken = language == null || language === '' ? {} : { language };
    const read = requestOf(capability, { fileId: file.kept.contentId, ...fileName, ...spoken });
    return { ...read, complete: storedRecording(read.request, file.kept) };
  };
}

/** Endpoint POST /api/v1/audio/transcriptions, whose body is a form with a file. */
export const audioTranscriptions = defineEndpoint({
  route: 'POST /api/v1/audio/transcriptions',
  scope: 'studio:audio',
  errorShape: 'openai',
  summary: 'Transcribe a recording (OpenAI-compatible)',
  description:
    'Creates the same job as POST /api/v1/studio/audio/transcribe. Fields that are not listed here are ignored. ' +
    'With the response formats `text`, `srt` and `vtt` the response is plain text.',
  request: {
    headers: studioHeaders,
    content: {
      'multipart/form-data': {
        schema: z.object({ file: z.string().meta({ format: 'binary' }), ...fields }),
      },
    },
  },
  answer: ownAnswer,
  answers: {
    200: finishedAnswer('The transcript.', z.looseObject({ text: z.string() })),
  },
  errors: [...jobErrors, ...fileErrors],
  async handle({ ctx }, services) {
    let format: Format = 'json';
    const readBody = readRecording((requested) => {
      format = requested;
    });
    const job = await startedJob(ctx, { capability: audioTranscribe, readBody }, services);
    const { type, show } = transcriptFormats[format];
    const transcriptOf = async (done: JobRecord) =>
      show(transcriptData.parse(await services.view.result(done)));
    if (type === 'application/json') {
      const toJson = async function* (done: JobRecord) {
        yield await transcriptOf(done);
      };
      return sendJson(ctx, job, { toJson, services });
    }
    ctx.body = await transcriptOf(await job.completed());
    ctx.type = type;
  },
});
