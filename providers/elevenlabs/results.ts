/** Reads the results of ElevenLabs: sound, songs with their details, plans and transcripts. */
import { z } from 'zod';
import type { Transcript } from '../../domain/job-record.ts';
import { PassThrough, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Dicer } from '@fastify/busboy';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import { readJson, type ProviderResponse } from '../provider-http.ts';
import type { ProviderResult } from '../provider.ts';

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

/** Song whose audio is still being received. */
interface DetailedSong {
  title: string | null;
  /** Sung lines under the names of their sections; null for an instrumental song. */
  lyrics: string | null;
  audio: Readable;
}

const detailsBytesMax = 1024 * 1024;
/**
 * Maximum number of characters of the lyrics. Longer lyrics are truncated, because Temporal's
 * history stores them.
 */
const lyricsCharactersMax = 12_000;
const titleCharactersMax = 255;

const detailsShape = z.object({
  composition_plan: z
    .object({
      sections: z.array(z.object({ section_name: z.string(), lines: z.array(z.string()) })),
    })
    .nullish()
    .catch(null),
  song_metadata: z.object({ title: z.string().nullish() }).nullish().catch(null),
});

/**
 * Reads the details of a song and returns them with the audio stream.
 * @throws ProviderFailure `failed` if the response has another form or ends before the audio
 */
async function readDetailedSong(response: ProviderResponse): Promise<DetailedSong> {
  const contentType = String(response.headers['content-type'] ?? '');
  const [, quotedBoundary, plainBoundary] =
    /;\s*boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(contentType) ?? [];
  const boundary = quotedBoundary ?? plainBoundary;
  if (!contentType.startsWith('multipart/') || boundary === undefined) {
    response.body.on('error', () => {}).destroy();
    throw new ProviderFailure(
      'failed',
      'the provider did not respond with the two parts of a song',
    );
  }
  return splitParts(response.body, boundary);
}

function splitParts(body: Readable, boundary: string): Promise<DetailedSong> {
  const { promise, resolve, reject } = Promise.withResolvers<DetailedSong>();
  const audio = new PassThrough();
  const parser = new Dicer({ boundary });
  let details: Promise<Omit<DetailedSong, 'audio'>> | undefined;
  let hasAudio = false;

  parser.on('part', (part) => {
    part.on('error', (error: Error) => audio.destroy(error));
    part.on('header', (header: object) => {
      if (/^audio\//i.test(readContentType(header))) {
        hasAudio = true;
        const songDetails = details ?? Promise.reject(new Error('the audio precedes the details'));
        songDetails.then(
          (song) => resolve({ ...song, audio }),
          (error: Error) => audio.destroy(error),
        );
        part.pipe(audio);
      } else {
        details = parseDetails(part);
        // The error is handled with the audio part; without one, the call fails anyway.
        details.catch(() => {});
      }
    });
  });
  parser.on('error', () => {});
  // The parser may end before the whole audio has been read, so the end of the parser only shows
  // whether there was an audio part.
  pipeline(body, parser).then(
    () => hasAudio || audio.destroy(new Error('the song has no audio')),
    (error: Error) => audio.destroy(error),
  );
  audio.once('close', () => body.destroy());
  // An error of the stream reaches the reader of the audio. If the audio has not been returned yet,
  // the error also rejects the promise.
  audio.once('error', (cause) =>
    reject(new ProviderFailure('failed', 'the provider sent an incomplete song', { cause })),
  );
  return promise;
}

function readContentType(header: object): string {
  const parsedHeader = z.object({ 'content-type': z.array(z.string()) }).safeParse(header);
  return parsedHeader.success ? (parsedHeader.data['content-type'][0] ?? '') : '';
}

/**
 * Parses the part with the details. The caller does not wait for the result, because the parser may
 * report the audio part before this part has ended.
 */
async function parseDetails(part: Readable): Promise<Omit<DetailedSong, 'audio'>> {
  const { composition_plan: plan, song_metadata: metadata } = detailsShape.parse(
    await readJson(part, detailsBytesMax),
  );
  return {
    title: metadata?.title?.slice(0, titleCharactersMax) || null,
    lyrics: joinLyrics(plan?.sections ?? []),
  };
}

function joinLyrics(sections: { section_name: string; lines: string[] }[]): string | null {
  const sungSections = sections.filter((section) => section.lines.length > 0);
  if (sungSections.length === 0) return null;
  return sungSections
    .map((section) => [`[${section.section_name}]`, ...section.lines].join('\n'))
    .join('\n\n')
    .slice(0, lyricsCharactersMax);
}

/**
 * Maximum size of a composition plan in bytes. It is limited, because Temporal's history stores the
 * plan.
 */
const planBytesMax = 48 * 1024;
const transcriptBytesMax = 16 * 1024 * 1024;

/** Returns the audio of a response as a stream. */
export function readAudio(response: ProviderResponse): Promise<ProviderResult> {
  return Promise.resolve({ outputs: [{ kind: 'stream', stream: response.body }], data: null });
}

/** Reads a song with its title and lyrics. @throws ProviderFailure `failed` */
export async function readSong(response: ProviderResponse): Promise<ProviderResult> {
  const { audio, title, lyrics } = await readDetailedSong(response);
  return { outputs: [{ kind: 'stream', stream: audio }], data: { title, lyrics } };
}

const planShape = z.object({
  positive_global_styles: z.array(z.string()),
  negative_global_styles: z.array(z.string()),
  sections: z.array(
    z.object({
      section_name: z.string(),
      positive_local_styles: z.array(z.string()),
      negative_local_styles: z.array(z.string()),
      duration_ms: z.number(),
      lines: z.array(z.string()),
    }),
  ),
});

/** Reads a composition plan. @throws ProviderFailure `failed` */
export async function readPlan(response: ProviderResponse): Promise<ProviderResult> {
  const parsedPlan = planShape.safeParse(await readPaidJson(response, planBytesMax));
  if (!parsedPlan.success)
    throw new ProviderFailure('failed', 'the provider responded without a valid composition plan');
  return { outputs: [], data: parsedPlan.data };
}

/** Reads a transcript. @throws ProviderFailure `failed` */
export async function readTranscript(response: ProviderResponse): Promise<ProviderResult> {
  const transcript = parseTranscript(await readPaidJson(response, transcriptBytesMax));
  if (!transcript) {
    throw new ProviderFailure('failed', 'the provider responded without a valid transcript');
  }
  const { language, durationSeconds } = transcript;
  const stream = Readable.from([Buffer.from(JSON.stringify(transcript))], { objectMode: false });
  return {
    outputs: [{ kind: 'stream', stream }],
    data: { language, durationSeconds },
    seconds: durationSeconds,
  };
}

/**
 * Reads the JSON body of the response to a paid call. If the response is incomplete, the call
 * fails, because the provider does not send the response again.
 * @throws ProviderFailure `failed`
 */
async function readPaidJson(response: ProviderResponse, bytesMax: number): Promise<unknown> {
  try {
    return await readJson(response.body, bytesMax);
  } catch (cause) {
    throw new ProviderFailure('failed', 'the provider ended its response unexpectedly', { cause });
  }
}
