/** Sound effects: a rising tone that depends on the prompt, with the requested duration. */
import { z } from 'zod';
import { createJsonEndpoint, type CallEndpoint } from '../calls/call.ts';
import { deriveSeed } from '../media/media.ts';
import type { Tones } from '../media/tones.ts';
import { parseOutputFormat, buildMp3Reply } from './audio-reply.ts';
import { invalidBody, invalidField } from './failures.ts';

const soundBody = z.object({
  text: z.string().max(450),
  loop: z.boolean().nullish(),
  duration_seconds: z.number().min(0.5).max(30).nullish(),
  prompt_influence: z.number().min(0).max(1).nullish(),
  model_id: z.enum(['eleven_text_to_sound_v2']).default('eleven_text_to_sound_v2'),
});

/** Returns the price in ElevenLabs' credits, as documented: 40 per second if the request sets a duration, otherwise 200. */
function calculateCost(durationSeconds: number | null | undefined): string {
  return String(durationSeconds ? Math.ceil(durationSeconds * 40) : 200);
}

/**
 * Creates the endpoint `POST /v1/sound-generation`. Without a requested duration, the sound takes 1 to 6 seconds, depending
 * on the prompt.
 */
export function soundEndpoint(tones: Tones): CallEndpoint {
  return createJsonEndpoint({
    path: /^\/elevenlabs\/v1\/sound-generation$/,
    latencyFactor: 1,
    schema: soundBody,
    buildError: invalidBody,
    readPrompt: ({ text }) => text,
    check: ({ text, duration_seconds: requestedSeconds }, exchange) => {
      if (text.trim() === '') throw invalidField('text', 'Text must not be empty');
      const format = parseOutputFormat(exchange);
      const durationSeconds = requestedSeconds ?? 1 + (deriveSeed(text) % 51) / 10;
      return async (context) => {
        const tone = { timbre: 'effect', name: text, durationSeconds, format } as const;
        const headers = { 'character-cost': calculateCost(requestedSeconds) };
        return buildMp3Reply(await tones.generate(tone), context, headers);
      };
    },
  });
}
