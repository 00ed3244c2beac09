/** Transcript formats of OpenAI's audio API: JSON, text and subtitles. */
import { z } from 'zod';

/** Schema of the transcription fields that responses contain. */
export const transcriptData = z.object({
  text: z.string(),
  language: z.string(),
  durationSeconds: z.number(),
  words: z.array(
    z.object({ text: z.string(), start: z.number(), end: z.number(), type: z.string() }),
  ),
});
type Transcript = z.infer<typeof transcriptData>;
type Word = Transcript['words'][number];

/** One subtitle. Times are in seconds from the start of the recording. */
interface Segment {
  id: number;
  start: number;
  end: number;
  text: string;
}

/** Maximum number of characters of a subtitle, which has two lines. */
const segmentCharactersMax = 84;
/** Maximum duration of a subtitle, in seconds. */
const segmentSecondsMax = 7;
/** Pause between two words after which a new subtitle begins, in seconds. */
const pauseSeconds = 1;
/** Minimum duration of a subtitle, in seconds: WebVTT forbids an end that is not after the start. */
const segmentSecondsMin = 0.1;

/**
 * Details of OpenAI's decoder in a segment, which its types require and other models do not have.
 */
const unknownDetails = {
  seek: 0,
  tokens: [],
  temperature: 0,
  avg_logprob: 0,
  compression_ratio: 0,
  no_speech_prob: 0,
};

/** Transcript formats, keyed by the value of `response_format`. */
export const transcriptFormats = {
  json: {
    type: 'application/json',
    show: ({ text }: Transcript) => JSON.stringify({ text }),
  },
  verbose_json: {
    type: 'application/json',
    show: ({ text, language, durationSeconds: duration, words }: Transcript) =>
      JSON.stringify({
        task: 'transcribe',
        language,
        duration,
        text,
        words: words
          .filter(({ type }) => type === 'word')
          .map(({ text: word, start, end }) => ({ word, start, end })),
        segments: groupIntoSegments(words).map((segment) => ({ ...segment, ...unknownDetails })),
      }),
  },
  text: { type: 'text/plain', show: ({ text }: Transcript) => `${text}\n` },
  srt: {
    type: 'text/plain',
    show: ({ words }: Transcript) =>
      groupIntoSegments(words)
        .map(({ id, start, end, text }) => {
          const time = `${formatTime(start, ',')} --> ${formatTime(end, ',')}`;
          return `${id + 1}\n${time}\n${text}\n\n`;
        })
        .join(''),
  },
  vtt: {
    type: 'text/vtt',
    show: ({ words }: Transcript) =>
      `WEBVTT\n\n${groupIntoSegments(words)
        .map(
          ({ start, end, text }) =>
            `${formatTime(start, '.')} --> ${formatTime(end, '.')}\n${escapeVtt(text)}\n\n`,
        )
        .join('')}`,
  },
} as const;

/** Escapes the text of a WebVTT cue, in which `-->` and tags have a meaning. */
const escapeVtt = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/**
 * Groups words into subtitles. A subtitle ends at the end of a sentence, before a pause, or when
 * the next word would exceed a limit.
 */
function groupIntoSegments(words: readonly Word[]): Segment[] {
  const segments: Segment[] = [];
  let openWords: Word[] = [];
  function closeSegment(): void {
    const [firstWord] = openWords;
    const lastWord = openWords.at(-1);
    const text = openWords
      .map((word) => word.text)
      .join('')
      // An empty line would end the subtitle.
      .replaceAll(/(?<!\s)\s*[\r\n]\s*/g, ' ')
      .trim();
    if (firstWord && lastWord && text !== '') {
      // Words may be given out of order; starts of subtitles may not go back (WebVTT, section 4).
      const start = Math.max(firstWord.start, segments.at(-1)?.start ?? 0);
      const lastEnd = Math.max(...openWords.map((word) => word.end));
      const end = Math.max(lastEnd, start + segmentSecondsMin);
      segments.push({ id: segments.length, start, end, text });
    }
    openWords = [];
  }
  for (const word of words) {
    const [firstWord] = openWords;
    const lastWord = openWords.at(-1);
    if (firstWord && lastWord && word.type === 'word') {
      const characters = openWords.reduce((sum, { text }) => sum + text.length, word.text.length);
      const hasPause = word.start - lastWord.end > pauseSeconds;
      const isTooLong =
        characters > segmentCharactersMax || word.end - firstWord.start > segmentSecondsMax;
      if (hasPause || isTooLong || /[.!?。！？]$/.test(lastWord.text.trim())) closeSegment();
    }
    // A space never begins a subtitle.
    if (word.type === 'word' || openWords.length > 0) openWords.push(word);
    if (word.type === 'word' && /[.!?。！？]$/.test(word.text)) closeSegment();
  }
  closeSegment();
  return segments;
}

const padTwo = (value: number): string => String(Math.floor(value)).padStart(2, '0');

/** Formats a time in seconds as `01:02:03,456`. */
function formatTime(seconds: number, separator: ',' | '.'): string {
  const ms = Math.round(seconds * 1000);
  const clock = [ms / 3_600_000, (ms / 60_000) % 60, (ms / 1000) % 60].map(padTwo).join(':');
  return clock + separator + String(ms % 1000).padStart(3, '0');
}
