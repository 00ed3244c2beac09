/**
 * The answer of /v1/music/detailed: multipart/mixed, JSON first, then the audio. The audio is passed on
 * as it comes; only the JSON is held.
 */
import { PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Dicer } from '@fastify/busboy';
import { z } from 'zod';
import { ProviderFailure } from '../provider.ts';
import type { ElevenlabsAnswer } from './elevenlabs-http.ts';

/** A song whose audio is still coming. */
export interface DetailedSong {
  title: string | null;
  /** The sung lines, section by section; null for an instrumental. */
  lyrics: string | null;
  audio: Readable;
}

const detailsBytesMax = 1024 * 1024;
/** Lyrics travel to Temporal beside the song: a song that has more is told the beginning of it. */
const lyricsCharactersMax = 12_000;
const titleCharactersMax = 255;

const details = z.object({
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
export async function readDetailedSong(answer: ElevenlabsAnswer): Promise<DetailedSong> {
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
  const held: Buffer[] = [];
  let heldBytes = 0;

  parser.on('part', (part) => {
    part.on('error', (error: Error) => audio.destroy(error));
    part.on('header', (header: object) => {
      if (/^audio\//i.test(typeOf(header))) {
        const told = parseDetails(Buffer.concat(held));
        if (told) resolve({ ...told, audio });
        else audio.destroy(new Error('the details are not what they should be'));
        part.pipe(audio);
      } else {
        part.on('data', (chunk: Buffer) => {
          if ((heldBytes += chunk.length) <= detailsBytesMax) held.push(chunk);
        });
      }
    });
  });
  pipeline(body, parser).then(
    () => audio.end(),
    (error: Error) => audio.destroy(error),
  );
  audio.once('close', () => body.destroy());
  // Whoever reads the audio hears of an error there; before that, the caller is waiting here.
  audio.once('error', (cause) =>
    reject(new ProviderFailure('failed', 'the provider broke off', { cause })),
  );
  audio.once('finish', () => reject(new ProviderFailure('failed', 'the song has no audio')));
  return promise;
}

function typeOf(header: object): string {
  const parsed = z.object({ 'content-type': z.array(z.string()) }).safeParse(header);
  return parsed.success ? (parsed.data['content-type'][0] ?? '') : '';
}

function parseDetails(bytes: Buffer): Omit<DetailedSong, 'audio'> | null {
  try {
    const { composition_plan: plan, song_metadata: about } = details.parse(
      JSON.parse(bytes.toString('utf8')),
    );
    return {
      title: about?.title?.slice(0, titleCharactersMax) || null,
      lyrics: lyricsOf(plan?.sections ?? []),
    };
  } catch {
    return null;
  }
}

function lyricsOf(sections: { section_name: string; lines: string[] }[]): string | null {
  const sung = sections.filter((section) => section.lines.length > 0);
  if (sung.length === 0) return null;
  return sung
    .map((section) => [`[${section.section_name}]`, ...section.lines].join('\n'))
    .join('\n\n')
    .slice(0, lyricsCharactersMax);
}
