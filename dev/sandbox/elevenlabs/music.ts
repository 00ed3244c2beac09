/** Music: plans, songs and songs with details. A chord per prompt, exactly as long as asked. */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { type CallEndpoint, type Reply, type Work, spoil } from '../calls/call.ts';
import { withoutMarkers } from '../faults.ts';
import { readJson, type Exchange } from '../http.ts';
import type { Mp3Format, Tones } from '../media/tones.ts';
import { formatOf, mp3Reply } from './audio-reply.ts';
import {
  compose,
  lengthMsOf,
  musicLengthMs,
  musicModel,
  partsOf,
  planSchema,
  presetLengthMs,
  titleOf,
  wordsOf,
  type MusicModel,
  type Plan,
} from './composition.ts';
import { invalidBody, invalidField } from './failures.ts';

const prompt = z.string().min(1).max(4100);

const planBody = z.object({
  prompt,
  music_length_ms: musicLengthMs.nullish(),
  source_composition_plan: z.unknown().optional(),
  model_id: musicModel,
});

const songBody = z.object({
  prompt: prompt.nullish(),
  composition_plan: z.unknown().optional(),
  music_length_ms: musicLengthMs.nullish(),
  model_id: musicModel,
  seed: z.int().min(0).max(2_147_483_647).nullish(),
  force_instrumental: z.boolean().nullish(),
  respect_sections_durations: z.boolean().nullish(),
  store_for_inpainting: z.boolean().nullish(),
  with_timestamps: z.boolean().nullish(),
  with_waveform_visual: z.boolean().nullish(),
});
type SongBody = z.output<typeof songBody>;

function readPlan(field: string, model: MusicModel, value: unknown): Plan {
  const parsed = planSchema(model).safeParse(value);
  if (parsed.success) return parsed.data;
  throw invalidBody(
    new z.ZodError(
      parsed.error.issues.map((issue) => Object.assign(issue, { path: [field, ...issue.path] })),
    ),
    { [field]: value },
  );
}

/** `POST /v1/music/plan`. */
export function planEndpoint(): CallEndpoint {
  return {
    path: /^\/elevenlabs\/v1\/music\/plan$/,
    latencyFactor: 1,
    read: async (exchange) => {
      const body = await readJson(exchange);
      const parsed = planBody.safeParse(body);
      return {
        body,
        prompt: parsed.data?.prompt ?? '',
        check: () => {
          if (!parsed.success) throw invalidBody(parsed.error, body);
          const { model_id: model, music_length_ms: lengthMs } = parsed.data;
          const given = parsed.data.source_composition_plan ?? undefined;
          const source =
            given === undefined ? undefined : readPlan('source_composition_plan', model, given);
          const words = withoutMarkers(parsed.data.prompt);
          const plan = compose({
            prompt: words,
            lengthMs: lengthMs ?? (source ? lengthMsOf(source) : presetLengthMs(words)),
            model,
            isInstrumental: false,
            source,
          });
          return () => ({
            contentType: 'application/json',
            bytes: Buffer.from(JSON.stringify(plan)),
          });
        },
      };
    },
  };
}

interface Song {
  plan: Plan;
  words: string;
  format: Mp3Format;
  body: SongBody;
}

/** What only a prompt may come with, and what only a plan may (documented as errors). */
function checkCombination(body: SongBody): void {
  const hasPlan = (body.composition_plan ?? undefined) !== undefined;
  const hasPrompt = (body.prompt ?? undefined) !== undefined;
  if (hasPlan === hasPrompt) {
    throw invalidField('prompt', 'Exactly one of prompt and composition_plan must be provided');
  }
  if (hasPlan && (body.music_length_ms ?? undefined) !== undefined) {
    throw invalidField('music_length_ms', 'music_length_ms can only be used with prompt');
  }
  if (hasPlan && body.force_instrumental === true) {
    throw invalidField('force_instrumental', 'force_instrumental can only be used with prompt');
  }
  if (hasPrompt && (body.seed ?? undefined) !== undefined) {
    throw invalidField('seed', 'seed cannot be used in conjunction with prompt');
  }
}

function songOf(exchange: Exchange, body: SongBody): Song {
  checkCombination(body);
  const model = body.model_id;
  const format = formatOf(exchange, model === 'music_v1' ? 'mp3_44100_128' : 'mp3_48000_192');
  const words = withoutMarkers(body.prompt ?? '');
  if (!body.prompt) {
    const plan = readPlan('composition_plan', model, body.composition_plan);
    if (!musicLengthMs.safeParse(lengthMsOf(plan)).success) {
      throw invalidField('composition_plan', 'The plan must last between 3000 and 600000 ms');
    }
    return { plan, words: withoutMarkers(wordsOf(plan)), format, body };
  }
  const plan = compose({
    prompt: words,
    lengthMs: body.music_length_ms ?? presetLengthMs(words),
    model,
    isInstrumental: body.force_instrumental === true,
  });
  return { plan, words, format, body };
}

async function play({ plan, words, format }: Song, tones: Tones): Promise<Buffer> {
  const durationSeconds = lengthMsOf(plan) / 1000;
  return tones.make({ timbre: 'music', name: words, durationSeconds, format });
}

function headersOf({ body }: Song): Record<string, string> {
  return body.store_for_inpainting === true ? { 'song-id': randomBytes(10).toString('hex') } : {};
}

/** The lyrics' words, spread evenly over their stretch of the song. */
function wordTimestamps(plan: Plan) {
  let startMs = 0;
  return partsOf(plan).flatMap(({ durationMs, lines }) => {
    const words = lines.flatMap((text) => text.split(/\s+/).filter((word) => word !== ''));
    const begin = startMs;
    startMs += durationMs;
    const eachMs = durationMs / Math.max(1, words.length);
    return words.map((word, index) => ({
      word,
      start_ms: Math.round(begin + index * eachMs),
      end_ms: Math.round(begin + (index + 0.9) * eachMs),
    }));
  });
}

/** Four values a second, from −1000 to 1000. */
function waveform(plan: Plan): number[] {
  const values = Math.round((lengthMsOf(plan) / 1000) * 4);
  return Array.from({ length: values }, (_, index) => (index % 2 === 0 ? 600 : -250));
}

function detailsOf({ plan, words, body }: Song) {
  const hasLyrics = partsOf(plan).some(({ lines }) => lines.length > 0);
  return {
    composition_plan: plan,
    song_metadata: {
      title: titleOf(words),
      description: `A song about ${words.slice(0, 200)}`,
      genres: ['electronic', 'pop'],
      languages: hasLyrics ? ['en'] : [],
      is_explicit: false,
    },
    ...(body.with_timestamps === true && { words_timestamps: wordTimestamps(plan) }),
    ...(body.with_waveform_visual === true && { waveform_visual: waveform(plan) }),
  };
}

/** `multipart/mixed` of the details on one line and the audio, as the vendor's client reads it. */
function detailedReply(details: unknown, audio: Buffer, headers: Record<string, string>): Reply {
  const boundary = randomBytes(16).toString('hex');
  const head =
    `--${boundary}\r\nContent-Type: application/json\r\n\r\n${JSON.stringify(details)}\r\n` +
    `--${boundary}\r\nContent-Disposition: attachment; filename="music.mp3"\r\n` +
    'Content-Type: audio/mpeg\r\n\r\n';
  return {
    contentType: `multipart/mixed; boundary=${boundary}`,
    bytes: Buffer.concat([Buffer.from(head), audio, Buffer.from(`\r\n--${boundary}--\r\n`)]),
    headers,
  };
}

function promptOf(body: SongBody | undefined): string {
  if (!body) return '';
  const plan = planSchema(body.model_id).safeParse(body.composition_plan);
  return body.prompt ?? (plan.success ? wordsOf(plan.data) : '');
}

function songEndpoint(path: RegExp, answer: (song: Song) => Work) {
  return {
    path,
    latencyFactor: 4,
    read: async (exchange: Exchange) => {
      const body = await readJson(exchange);
      const parsed = songBody.safeParse(body);
      return {
        body,
        prompt: promptOf(parsed.data),
        check: () => {
          if (!parsed.success) throw invalidBody(parsed.error, body);
          return answer(songOf(exchange, parsed.data));
        },
      };
    },
  };
}

/** `POST /v1/music` and `POST /v1/music/detailed`. */
export function musicEndpoints(tones: Tones): CallEndpoint[] {
  return [
    songEndpoint(/^\/elevenlabs\/v1\/music$/, (song) => async (context) => {
      return mp3Reply(await play(song, tones), context, headersOf(song));
    }),
    songEndpoint(/^\/elevenlabs\/v1\/music\/detailed$/, (song) => async (context) => {
      const audio = spoil(await play(song, tones), context);
      return detailedReply(detailsOf(song), audio, headersOf(song));
    }),
  ];
}
