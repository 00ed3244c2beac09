/** Text to speech and text to dialogue: a tone for each voice, as long as the text takes to speak. */
import { z } from 'zod';
import {
  CallRejectedError,
  createJsonEndpoint,
  type CallEndpoint,
  type Work,
} from '../calls/call.ts';
import type { Mp3Format, Tones } from '../media/tones.ts';
import { withoutMarkers } from '../faults.ts';
import { parseOutputFormat, buildMp3Reply } from './audio-reply.ts';
import { invalidBody } from './failures.ts';

/** Voice ids of ElevenLabs' premade voices that the sandbox accepts, by name. */
const voices: Readonly<Record<string, string>> = {
  aria: '9BWtsMINqrJLrRacOk9x',
  roger: 'CwhRBWXzGAHq8TQ4Fs17',
  sarah: 'EXAVITQu4vr4xnSDxMaL',
  laura: 'FGY2WhTYpPnrIDTdsKH5',
  charlie: 'IKne3meq5aSn9XLyUdCD',
  george: 'JBFqnCBsd6RMkjVDRZzb',
  callum: 'N2lVS1w4EtoT3dr4eOWO',
  river: 'SAz9YHcvj6GT2YYXdXww',
  liam: 'TX3LPaxmHKxFdv7VOQHJ',
  charlotte: 'XB0fDUnXU5powFXDhCwa',
  alice: 'Xb7hH8MSUJpSbSDYk0k2',
  matilda: 'XrExE9yKIg1WjnnlVkGX',
  will: 'bIHbv24MWmeRgasZH58o',
  jessica: 'cgSgspJ2msm6clMCkdW9',
  eric: 'cjVigY5qzO86Huf0OWal',
  chris: 'iP95p4xoKVk53GoZ742B',
  brian: 'nPczCjzI2devNBz1zQrb',
  daniel: 'onwK4e9ZLuTAKqWW03F9',
  lily: 'pFZP5JQG7iQjIQuC4Bku',
  bill: 'pqHfZKP75CvOlQylNhV4',
  rachel: '21m00Tcm4TlvDq8ikWAM',
  adam: 'pNInz6obpgDQGcFmaJgB',
  antoni: 'ErXwobaYiN019PkySvjV',
};

const charactersPerSecond = 14;

/** Maximum length of a request's text in characters, by model, as documented. */
const charactersMax: Record<string, number> = {
  eleven_multilingual_v2: 10_000,
  eleven_v3: 5000,
  eleven_flash_v2_5: 40_000,
  eleven_turbo_v2_5: 40_000,
  eleven_flash_v2: 30_000,
  eleven_turbo_v2: 30_000,
};
const dialogueCharactersMax = 2000;
const dialogueVoicesMax = 10;

const share = z.number().min(0).max(1);
const seed = z.int().min(0).max(4_294_967_295);
const sharedFields = {
  seed: seed.nullish(),
  language_code: z.string().nullish(),
};

const speechBody = z.object({
  text: z.string(),
  model_id: z.string().default('eleven_multilingual_v2'),
  voice_settings: z
    .object({
      stability: share.nullish(),
      similarity_boost: share.nullish(),
      style: share.nullish(),
      speed: z.number().min(0.7).max(1.2).nullish(),
    })
    .nullish(),
  ...sharedFields,
});

const dialogueBody = z.object({
  inputs: z.array(z.object({ text: z.string(), voice_id: z.string() })).min(1),
  model_id: z.string().default('eleven_v3'),
  settings: z.object({ stability: share.nullish(), similarity: share.nullish() }).nullish(),
  ...sharedFields,
});

interface Line {
  text: string;
  voiceId: string;
  speed: number;
}

function findCharactersMax(modelId: string): number {
  const limit = charactersMax[modelId];
  if (limit !== undefined) return limit;
  throw new CallRejectedError(400, {
    code: 'model_not_found',
    message: `A model with model ID ${modelId} does not exist.`,
    param: 'model_id',
  });
}

function checkLines(lines: readonly Line[]): void {
  for (const { voiceId, text } of lines) {
    if (!Object.values(voices).includes(voiceId)) {
      const message = `A voice with voice_id '${voiceId}' was not found.`;
      throw new CallRejectedError(404, { code: 'voice_not_found', message });
    }
    if (text.trim() === '') {
      const message = 'Input text is empty. Please provide text to convert to speech.';
      throw new CallRejectedError(400, { code: 'input_text_empty', message });
    }
  }
}

function checkLength(characters: number, limit: number): void {
  if (characters <= limit) return;
  throw new CallRejectedError(400, {
    code: 'max_character_limit_exceeded',
    message: `This request has ${characters} characters, the limit is ${limit}.`,
  });
}

/** Calculates the seconds that it takes to speak a line; fault markers do not count. */
function calculateSeconds({ text, speed }: Line): number {
  return withoutMarkers(text).length / charactersPerSecond / speed;
}

/** Returns a function that builds the response: the lines spoken one after another. */
function speakLines(lines: readonly Line[], format: Mp3Format, tones: Tones): Work {
  return async (context) => {
    const spoken = await Promise.all(
      lines.map(async (line) =>
        tones.generate({
          timbre: 'speech',
          name: line.voiceId,
          durationSeconds: calculateSeconds(line),
          format,
        }),
      ),
    );
    const characters = lines.reduce((sum, { text }) => sum + text.length, 0);
    return buildMp3Reply(Buffer.concat(spoken), context, { 'character-cost': String(characters) });
  };
}

/** Creates the endpoint `POST /v1/text-to-speech/{voice_id}`. */
export function speechEndpoint(tones: Tones): CallEndpoint {
  return createJsonEndpoint({
    path: /^\/elevenlabs\/v1\/text-to-speech\/(?<voiceId>[^/]+)$/,
    latencyFactor: 1,
    schema: speechBody,
    buildError: invalidBody,
    readPrompt: ({ text }) => text,
    check: ({ text, model_id: modelId, voice_settings: settings }, exchange) => {
      const voiceId = exchange.params['voiceId'] ?? '';
      const lines = [{ text, voiceId, speed: settings?.speed ?? 1 }];
      checkLines(lines);
      checkLength(text.length, findCharactersMax(modelId));
      return speakLines(lines, parseOutputFormat(exchange), tones);
    },
  });
}

/** Creates the endpoint `POST /v1/text-to-dialogue`. */
export function dialogueEndpoint(tones: Tones): CallEndpoint {
  return createJsonEndpoint({
    path: /^\/elevenlabs\/v1\/text-to-dialogue$/,
    latencyFactor: 2,
    schema: dialogueBody,
    buildError: invalidBody,
    readPrompt: ({ inputs }) => inputs.map(({ text }) => text).join('\n'),
    check: ({ inputs, model_id: modelId }, exchange) => {
      findCharactersMax(modelId);
      const lines = inputs.map(({ text, voice_id: voiceId }) => ({ text, voiceId, speed: 1 }));
      checkLines(lines);
      if (new Set(lines.map(({ voiceId }) => voiceId)).size > dialogueVoicesMax) {
        const message = `A dialogue has at most ${dialogueVoicesMax} voices.`;
        throw new CallRejectedError(400, { code: 'too_many_voices', message, param: 'inputs' });
      }
      const characters = lines.reduce((sum, { text }) => sum + text.length, 0);
      checkLength(characters, dialogueCharactersMax);
      return speakLines(lines, parseOutputFormat(exchange), tones);
    },
  });
}
