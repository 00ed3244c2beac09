/** The answer of /v1/speech-to-text in our words (design §7). */
import { z } from 'zod';
import type { Transcript } from '../../../studio/audio-transcribe.ts';

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

/** The transcript of an answer; null when it is none. */
export function transcriptOf(body: unknown): Transcript | null {
  const parsed = answer.safeParse(body);
  if (!parsed.success) return null;
  let atSeconds = 0;
  const words = parsed.data.words.map((word): Transcript['words'][number] => {
    // A word without times stands where the one before it ended.
    const start = word.start ?? atSeconds;
    const end = word.end ?? start;
    atSeconds = end;
    const { text, type, speaker_id: speaker } = word;
    return { text, start, end, type, ...(speaker && { speakerId: speaker }) };
  });
  return {
    text: parsed.data.text,
    language: parsed.data.language_code,
    durationSeconds: parsed.data.audio_duration_secs ?? atSeconds,
    words,
  };
}
