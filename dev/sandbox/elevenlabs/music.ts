/**
 * Music endpoints: plans, songs, and songs with details. A song has the requested length and a chord that depends on the
 * prompt.
 */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import {
  createJsonEndpoint,
  buildJsonReply,
  type CallEndpoint,
  type Reply,
  type Work,
} from '../calls/call.ts';
import { applyMediaFault, withoutMarkers } from '../faults.ts';
import type { Exchange } from '../http.ts';
import type { Mp3Format, Tones } from '../media/tones.ts';
import { parseOutputFormat, buildMp3Reply } from './audio-reply.ts';
import {
  compose,
  calculateLengthMs,
  musicLengthMs,
  musicModel,
  planSchema,
  defaultLengthMs,
  buildTitle,
  listTexts,
  type Plan,
} from './composition.ts';
import { invalidBody, invalidField } from './failures.ts';

const prompt = z.string().min(1).max(4100);

const planBody = z.object({
  prompt,
  music_length_ms: musicLengthMs.nullish(),
  source_composition_plan: planSchema.nullish(),
  model_id: musicModel,
});

const songBody = z.object({
  prompt: prompt.nullish(),
  composition_plan: planSchema.nullish(),
  music_length_ms: musicLengthMs.nullish(),
  model_id: musicModel,
  seed: z.int().min(0).max(2_147_483_647).nullish(),
  force_instrumental: z.boolean().nullish(),
});
type SongBody = z.output<typeof songBody>;

/** Creates the endpoint `POST /v1/music/plan`. */
export function planEndpoint(): CallEndpoint {
  return createJsonEndpoint({
    path: /^\/elevenlabs\/v1\/music\/plan$/,
    latencyFactor: 1,
    schema: planBody,
    buildError: invalidBody,
    readPrompt: (body) => body.prompt,
    check: (body) => {
      const { music_length_ms: lengthMs } = body;
      const source = body.source_composition_plan ?? undefined;
      const text = withoutMarkers(body.prompt);
      const plan = compose({
        prompt: text,
        lengthMs: lengthMs ?? (source ? calculateLengthMs(source) : defaultLengthMs(text)),
        isInstrumental: false,
        source,
      });
      return () => buildJsonReply(plan);
    },
  });
}

interface Song {
  plan: Plan;
  text: string;
  format: Mp3Format;
}

/** Throws if fields are combined that the documentation does not allow together. */
function checkCombination(body: SongBody): void {
  const hasPlan = Boolean(body.composition_plan);
  const hasPrompt = typeof body.prompt === 'string';
  if (hasPlan === hasPrompt) {
    throw invalidField('prompt', 'Exactly one of prompt and composition_plan must be provided');
  }
  if (hasPlan && typeof body.music_length_ms === 'number') {
    throw invalidField('music_length_ms', 'music_length_ms can only be used with prompt');
  }
  if (hasPlan && body.force_instrumental === true) {
    throw invalidField('force_instrumental', 'force_instrumental can only be used with prompt');
  }
  if (hasPrompt && typeof body.seed === 'number') {
    throw invalidField('seed', 'seed cannot be used in conjunction with prompt');
  }
}

function planSong(exchange: Exchange, body: SongBody): Song {
  checkCombination(body);
  const format = parseOutputFormat(exchange);
  const text = withoutMarkers(body.prompt ?? '');
  const { composition_plan: plan } = body;
  if (plan) {
    if (!musicLengthMs.safeParse(calculateLengthMs(plan)).success) {
      throw invalidField('composition_plan', 'The plan must last between 3000 and 600000 ms');
    }
    return { plan, text: withoutMarkers(listTexts(plan)), format };
  }
  const composed = compose({
    prompt: text,
    lengthMs: body.music_length_ms ?? defaultLengthMs(text),
    isInstrumental: body.force_instrumental === true,
  });
  return { plan: composed, text, format };
}

async function generateAudio({ plan, text, format }: Song, tones: Tones): Promise<Buffer> {
  const durationSeconds = calculateLengthMs(plan) / 1000;
  return tones.generate({ timbre: 'music', name: text, durationSeconds, format });
}

function buildDetails({ plan, text }: Song) {
  const hasLyrics = plan.sections.some(({ lines }) => lines.length > 0);
  return {
    composition_plan: plan,
    song_metadata: {
      title: buildTitle(text),
      description: `A song about ${text.slice(0, 200)}`,
      genres: ['electronic', 'pop'],
      languages: hasLyrics ? ['en'] : [],
      is_explicit: false,
    },
  };
}

/** Builds a `multipart/mixed` response with the details and the audio, as ElevenLabs' client expects it. */
function buildDetailedReply(details: unknown, audio: Buffer): Reply {
  const boundary = randomBytes(16).toString('hex');
  const head =
    `--${boundary}\r\nContent-Type: application/json\r\n\r\n${JSON.stringify(details)}\r\n` +
    `--${boundary}\r\nContent-Disposition: attachment; filename="music.mp3"\r\n` +
    'Content-Type: audio/mpeg\r\n\r\n';
  return {
    contentType: `multipart/mixed; boundary=${boundary}`,
    bytes: Buffer.concat([Buffer.from(head), audio, Buffer.from(`\r\n--${boundary}--\r\n`)]),
  };
}

function readPrompt({ prompt: promptText, composition_plan: plan }: SongBody): string {
  return promptText ?? (plan ? listTexts(plan) : '');
}

function songEndpoint(path: RegExp, createWork: (song: Song) => Work): CallEndpoint {
  return createJsonEndpoint({
    path,
    latencyFactor: 4,
    schema: songBody,
    buildError: invalidBody,
    readPrompt,
    check: (body, exchange) => createWork(planSong(exchange, body)),
  });
}

/** Creates the endpoints `POST /v1/music` and `POST /v1/music/detailed`. */
export function musicEndpoints(tones: Tones): CallEndpoint[] {
  return [
    songEndpoint(/^\/elevenlabs\/v1\/music$/, (song) => async (context) => {
      return buildMp3Reply(await generateAudio(song, tones), context);
    }),
    songEndpoint(/^\/elevenlabs\/v1\/music\/detailed$/, (song) => async (context) => {
      const audio = applyMediaFault(await generateAudio(song, tones), context.faults);
      return buildDetailedReply(buildDetails(song), audio);
    }),
  ];
}
