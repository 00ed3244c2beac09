/** Transcripts of ElevenLabs, converted to the form that callers receive. */
import { z } from 'zod';
import type { Transcript } from '../../studio/audio-transcribe.ts';

const transcriptBody = z.object({
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

/** Returns the short language code (`en` for `eng`), the form that requests use. */
function shortCode(code: string): string {
  try {
    return Intl.getCanonicalLocales(code)[0] ?? code;
  } catch {
    return code;
  }
}

/** Returns the transcript of a response body; null if the body has another form. */
export function parseTranscript(body: unknown): Transcript | null {
  const parsed = transcriptBody.safeParse(body);
  if (!parsed.success) return null;
  let atSeconds = 0;
  const words = parsed.data.words.map((word): Transcript['words'][number] => {
    // A word without times starts at the end of the word before it.
    const start = word.start ?? atSeconds;
    const end = word.end ?? start;
    atSeconds = end;
    const { text, type, speaker_id: speaker } = word;
    return { text, start, end, type, ...(speaker && { speakerId: speaker }) };
  });
  return {
    text: parsed.data.text,
    language: shortCode(parsed.data.language_code),
    durationSeconds: parsed.data.audio_duration_secs ?? atSeconds,
    words,
  };
}
