/** Sound effects: a sweep chosen by the prompt, with the requested duration. */
import { z } from 'zod';
import { jsonEndpoint, type CallEndpoint } from '../calls/call.ts';
import { seedOf } from '../media/media.ts';
import type { Tones } from '../media/tones.ts';
import { formatOf, mp3Reply } from './audio-reply.ts';
import { invalidBody, invalidField } from './failures.ts';

const soundBody = z.object({
  text: z.string().max(450),
  loop: z.boolean().nullish(),
  duration_seconds: z.number().min(0.5).max(30).nullish(),
  prompt_influence: z.number().min(0).max(1).nullish(),
  model_id: z.enum(['eleven_text_to_sound_v2']).default('eleven_text_to_sound_v2'),
});

/** Credits: 40 per second with a duration, else 200 (documented prices). */
function costOf(durationSeconds: number | null | undefined): string {
  return String(durationSeconds ? Math.ceil(durationSeconds * 40) : 200);
}

/** `POST /v1/sound-generation`. Without a duration, the prompt determines 1 to 6 seconds. */
export function soundEndpoint(tones: Tones): CallEndpoint {
  return jsonEndpoint({
    path: /^\/elevenlabs\/v1\/sound-generation$/,
    latencyFactor: 1,
    schema: soundBody,
    refuse: invalidBody,
    promptOf: ({ text }) => text,
    check: ({ text, duration_seconds: askedSeconds }, exchange) => {
      if (text.trim() === '') throw invalidField('text', 'Text must not be empty');
      const format = formatOf(exchange);
      const durationSeconds = askedSeconds ?? 1 + (seedOf(text) % 51) / 10;
      return async (context) => {
        const tone = { timbre: 'effect', name: text, durationSeconds, format } as const;
        const headers = { 'character-cost': costOf(askedSeconds) };
        return mp3Reply(await tones.make(tone), context, headers);
      };
    },
  });
}
