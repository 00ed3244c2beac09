/** The answer of /v1/music/detailed: JSON first, then the audio, which is passed on as it comes. */
import { PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Dicer } from '@fastify/busboy';
import { z } from 'zod';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import { readJson, type ProviderAnswer } from '../provider-http.ts';

/** A song whose audio is still coming. */
interface DetailedSong {
  title: string | null;
  /** The sung lines, section by section; null for an instrumental. */
  lyrics: string | null;
  audio: Readable;
}

const detailsBytesMax = 1024 * 1024;
/** Lyrics travel to Temporal beside the song: a song that has more is told the beginning of it. */
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
 * Reads the details and hands over the audio.
 * @throws ProviderFailure `failed` when the answer is something else or breaks off before the audio
 */
export async function readDetailedSong(answer: ProviderAnswer): Promise<DetailedSong> {
  const type = String(answer.headers['content-type'] ?? '');
  const [, quoted, plain] = /;\s*boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(type) ?? [];
  const boundary = quoted ?? plain;
  if (!type.startsWith('multipart/') || boundary === undefined) {
    answer.body.on('error', () => {}).destroy();
    throw new ProviderFailure('failed', 'the provider answered without the parts of a song');
  }
  return split(answer.body, boundary);
}

function split(body: Readable, boundary: string): Promise<DetailedSong> {
  const { promise, resolve, reject } = Promise.withResolvers<DetailedSong>();
  const audio = new PassThrough();
  const parser = new Dicer({ boundary });
  let told: Promise<Omit<DetailedSong, 'audio'>> | undefined;
  let hasAudio = false;

  parser.on('part', (part) => {
    part.on('error', (error: Error) => audio.destroy(error));
    part.on('header', (header: object) => {
      if (/^audio\//i.test(typeOf(header))) {
        hasAudio = true;
        const details = told ?? Promise.reject(new Error('the details come first'));
        details.then(
          (song) => resolve({ ...song, audio }),
          (error: Error) => audio.destroy(error),
        );
        part.pipe(audio);
      } else {
        told = parseDetails(part);
        // Heard of with the audio; without audio there is nothing to tell.
        told.catch(() => {});
      }
    });
  });
  parser.on('error', () => {});
  // The parser is done before the last of the audio has been read: only its absence is told here.
  pipeline(body, parser).then(
    () => hasAudio || audio.destroy(new Error('the song has no audio')),
    (error: Error) => audio.destroy(error),
  );
  audio.once('close', () => body.destroy());
  // Whoever reads the audio hears of an error there; before that, the caller is waiting here.
  audio.once('error', (cause) =>
    reject(new ProviderFailure('failed', 'the provider sent no whole song', { cause })),
  );
  return promise;
}

function typeOf(header: object): string {
  const parsed = z.object({ 'content-type': z.array(z.string()) }).safeParse(header);
  return parsed.success ? (parsed.data['content-type'][0] ?? '') : '';
}

/** The parser runs ahead of its parts, so the end of this one may come after the head of the next. */
async function parseDetails(part: Readable): Promise<Omit<DetailedSong, 'audio'>> {
  const { composition_plan: plan, song_metadata: about } = detailsShape.parse(
    await readJson(part, detailsBytesMax),
  );
  return {
    title: about?.title?.slice(0, titleCharactersMax) || null,
    lyrics: lyricsOf(plan?.sections ?? []),
  };
}

function lyricsOf(sections: { section_name: string; lines: string[] }[]): string | null {
  const sung = sections.filter((section) => section.lines.length > 0);
  if (sung.length === 0) return null;
  return sung
    .map((section) => [`[${section.section_name}]`, ...section.lines].join('\n'))
    .join('\n\n')
    .slice(0, lyricsCharactersMax);
}
