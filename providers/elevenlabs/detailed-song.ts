/** Response of /v1/music/detailed: JSON first, then the audio, which is streamed. */
import { PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Dicer } from '@fastify/busboy';
import { z } from 'zod';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import { readJson, type ProviderAnswer } from '../provider-http.ts';

/** A song with its audio as a stream. */
interface DetailedSong {
  title: string | null;
  /** Sung lines, section by section; null for an instrumental. */
  lyrics: string | null;
  audio: Readable;
}

const detailsBytesMax = 1024 * 1024;
/**
 * Limit of the lyrics' length, because they travel to Temporal with the song; longer lyrics are
 * cut.
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
 * Reads the details and returns them with the audio stream.
 * @throws ProviderFailure `failed` when the response has another format or ends before the audio
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
        // The error is handled together with the audio; without audio there is nothing to report.
        told.catch(() => {});
      }
    });
  });
  parser.on('error', () => {});
  // The parser ends before the last bytes of the audio are read, so only missing audio is reported
  // here.
  pipeline(body, parser).then(
    () => hasAudio || audio.destroy(new Error('the song has no audio')),
    (error: Error) => audio.destroy(error),
  );
  audio.once('close', () => body.destroy());
  // An error in the audio reaches its reader; an earlier error reaches the caller of this function.
  audio.once('error', (cause) =>
    reject(new ProviderFailure('failed', 'the provider sent no whole song', { cause })),
  );
  return promise;
}

function typeOf(header: object): string {
  const parsed = z.object({ 'content-type': z.array(z.string()) }).safeParse(header);
  return parsed.success ? (parsed.data['content-type'][0] ?? '') : '';
}

/** The parser reads ahead, so the end of this part may follow the headers of the next one. */
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
