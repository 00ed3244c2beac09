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

/** Limits of a subtitle: characters on its two lines, its duration, and the pause that ends it. */
const segmentCharactersMax = 84;
const segmentSecondsMax = 7;
const pauseSeconds = 1;

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
        segments: groupIntoSegments(words),
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
            `${formatTime(start, '.')} --> ${formatTime(end, '.')}\n${text}\n\n`,
        )
        .join('')}`,
  },
} as const;

/**
 * Groups words into subtitles. A subtitle ends at the end of a sentence, before a pause, or when it
 * would exceed a limit.
 */
function groupIntoSegments(words: readonly Word[]): Segment[] {
  const segments: Segment[] = [];
  let open: Word[] = [];
  function close(): void {
    const [first] = open;
    const last = open.at(-1);
    const text = open
      .map((word) => word.text)
      .join('')
      .trim();
    if (first && last && text !== '') {
      segments.push({ id: segments.length, start: first.start, end: last.end, text });
    }
    open = [];
  }
  for (const word of words) {
    const [first] = open;
    const last = open.at(-1);
    if (first && last && word.type === 'word') {
      const length = open.reduce((sum, { text }) => sum + text.length, word.text.length);
      const pause = word.start - last.end > pauseSeconds;
      const tooLong = length > segmentCharactersMax || word.end - first.start > segmentSecondsMax;
      if (pause || tooLong || /[.!?。！？]$/.test(last.text.trim())) close();
    }
    // A space never begins a subtitle.
    if (word.type === 'word' || open.length > 0) open.push(word);
    if (word.type === 'word' && /[.!?。！？]$/.test(word.text)) close();
  }
  close();
  return segments;
}

const padTwo = (value: number): string => String(Math.floor(value)).padStart(2, '0');

/** Formats a time in seconds as `01:02:03,456`. */
function formatTime(seconds: number, separator: ',' | '.'): string {
  const ms = Math.round(seconds * 1000);
  const clock = [ms / 3_600_000, (ms / 60_000) % 60, (ms / 1000) % 60].map(padTwo).join(':');
  return clock + separator + String(ms % 1000).padStart(3, '0');
}
