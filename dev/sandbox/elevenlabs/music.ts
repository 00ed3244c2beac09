/**
 * Music: plans, songs and songs with details. A song is a chord chosen by the prompt, with the
 * requested length.
 */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import {
  jsonEndpoint,
  jsonReply,
  type CallEndpoint,
  type Reply,
  type Work,
} from '../calls/call.ts';
import { spoil, withoutMarkers } from '../faults.ts';
import type { Exchange } from '../http.ts';
import type { Mp3Format, Tones } from '../media/tones.ts';
import { formatOf, mp3Reply } from './audio-reply.ts';
import {
  compose,
  lengthMsOf,
  musicLengthMs,
  musicModel,
  planSchema,
  presetLengthMs,
  titleOf,
  wordsOf,
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

/** `POST /v1/music/plan`. */
export function planEndpoint(): CallEndpoint {
  return jsonEndpoint({
    path: /^\/elevenlabs\/v1\/music\/plan$/,
    latencyFactor: 1,
    schema: planBody,
    refuse: invalidBody,
    promptOf: (body) => body.prompt,
    check: (body) => {
      const { music_length_ms: lengthMs } = body;
      const source = body.source_composition_plan ?? undefined;
      const words = withoutMarkers(body.prompt);
      const plan = compose({
        prompt: words,
        lengthMs: lengthMs ?? (source ? lengthMsOf(source) : presetLengthMs(words)),
        isInstrumental: false,
        source,
      });
      return () => jsonReply(plan);
    },
  });
}

interface Song {
  plan: Plan;
  words: string;
  format: Mp3Format;
}

/**
 * Fields that are only allowed with a prompt, and those only with a plan (documented as errors).
 */
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

function songOf(exchange: Exchange, body: SongBody): Song {
  checkCombination(body);
  const format = formatOf(exchange);
  const words = withoutMarkers(body.prompt ?? '');
  const { composition_plan: plan } = body;
  if (plan) {
    if (!musicLengthMs.safeParse(lengthMsOf(plan)).success) {
      throw invalidField('composition_plan', 'The plan must last between 3000 and 600000 ms');
    }
    return { plan, words: withoutMarkers(wordsOf(plan)), format };
  }
  const composed = compose({
    prompt: words,
    lengthMs: body.music_length_ms ?? presetLengthMs(words),
    isInstrumental: body.force_instrumental === true,
  });
  return { plan: composed, words, format };
}

async function play({ plan, words, format }: Song, tones: Tones): Promise<Buffer> {
  const durationSeconds = lengthMsOf(plan) / 1000;
  return tones.make({ timbre: 'music', name: words, durationSeconds, format });
}

function detailsOf({ plan, words }: Song) {
  const hasLyrics = plan.sections.some(({ lines }) => lines.length > 0);
  return {
    composition_plan: plan,
    song_metadata: {
      title: titleOf(words),
      description: `A song about ${words.slice(0, 200)}`,
      genres: ['electronic', 'pop'],
      languages: hasLyrics ? ['en'] : [],
      is_explicit: false,
    },
  };
}

/**
 * Makes `multipart/mixed` with the details on one line and the audio, as the vendor's client reads
 * it.
 */
function detailedReply(details: unknown, audio: Buffer): Reply {
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

function promptOf({ prompt: said, composition_plan: plan }: SongBody): string {
  return said ?? (plan ? wordsOf(plan) : '');
}

function songEndpoint(path: RegExp, answer: (song: Song) => Work): CallEndpoint {
  return jsonEndpoint({
    path,
    latencyFactor: 4,
    schema: songBody,
    refuse: invalidBody,
    promptOf,
    check: (body, exchange) => answer(songOf(exchange, body)),
  });
}

/** `POST /v1/music` and `POST /v1/music/detailed`. */
export function musicEndpoints(tones: Tones): CallEndpoint[] {
  return [
    songEndpoint(/^\/elevenlabs\/v1\/music$/, (song) => async (context) => {
      return mp3Reply(await play(song, tones), context);
    }),
    songEndpoint(/^\/elevenlabs\/v1\/music\/detailed$/, (song) => async (context) => {
      const audio = spoil(await play(song, tones), context.faults);
      return detailedReply(detailsOf(song), audio);
    }),
  ];
}
