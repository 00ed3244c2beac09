/** Converts transcripts of ElevenLabs to the form that callers receive. */
import { z } from 'zod';
import type { Transcript } from '../../domain/job-record.ts';

/**
 * Schema of a transcript. The call is paid, so only a body without text is unusable: other fields
 * may be missing, or have values that ElevenLabs adds later.
 */
const transcriptBody = z.object({
  language_code: z.string().nullish().catch(null),
  text: z.string(),
  audio_duration_secs: z.number().nonnegative().nullish().catch(null),
  words: z.array(z.unknown()).nullish().catch(null),
});

const wordBody = z.object({
  text: z.string(),
  start: z.number().nullish().catch(null),
  end: z.number().nullish().catch(null),
  type: z.enum(['word', 'spacing', 'audio_event']).nullish().catch(null),
  speaker_id: z.string().nullish().catch(null),
});

/** Language of a transcript whose language is unknown (ISO 639-2). */
const undeterminedLanguage = 'und';

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
  const { text, language_code: language, words: listedWords } = parsedBody.data;
  const words = (listedWords ?? []).flatMap((listedWord): Transcript['words'] => {
    const word = wordBody.safeParse(listedWord).data;
    if (!word) return [];
    // A word without a start time starts at the end of the previous word.
    const start = word.start ?? previousEndSeconds;
    const end = word.end ?? start;
    previousEndSeconds = end;
    const type = word.type ?? (word.text.trim() === '' ? 'spacing' : 'word');
    const { speaker_id: speaker } = word;
    return [{ text: word.text, start, end, type, ...(speaker && { speakerId: speaker }) }];
  });
  return {
    text,
    language: language ? shortenLanguageCode(language) : undeterminedLanguage,
    durationSeconds: parsedBody.data.audio_duration_secs ?? previousEndSeconds,
    words,
  };
}
