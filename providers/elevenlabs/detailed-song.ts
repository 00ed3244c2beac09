/**
 * Reads the multipart response of /v1/music/detailed. Its first part is the details in JSON; its
 * second part is the audio, which is returned as a stream.
 */
import { PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Dicer } from '@fastify/busboy';
import { z } from 'zod';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import { readJson, type ProviderResponse } from '../provider-http.ts';

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
export async function readDetailedSong(response: ProviderResponse): Promise<DetailedSong> {
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
