/** Converts transcripts of ElevenLabs to the form that callers receive. */
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

/** Returns the short form of a language code, such as `en` for `eng`. Requests use this form. */
function shortenLanguageCode(code: string): string {
  try {
    return Intl.getCanonicalLocales(code)[0] ?? code;
  } catch {
    return code;
  }
}

/** Returns the transcript of a response body; null if the body has an unexpected format. */
export function parseTranscript(body: unknown): Transcript | null {
  const parsedBody = transcriptBody.safeParse(body);
  if (!parsedBody.success) return null;
  let previousEndSeconds = 0;
  const words = parsedBody.data.words.map((word): Transcript['words'][number] => {
    // A word without a start time starts at the end of the previous word.
    const start = word.start ?? previousEndSeconds;
    const end = word.end ?? start;
    previousEndSeconds = end;
    const { text, type, speaker_id: speaker } = word;
    return { text, start, end, type, ...(speaker && { speakerId: speaker }) };
  });
  return {
    text: parsedBody.data.text,
    language: shortenLanguageCode(parsedBody.data.language_code),
    durationSeconds: parsedBody.data.audio_duration_secs ?? previousEndSeconds,
    words,
  };
}
