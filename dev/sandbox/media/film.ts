/** Short real H.264 MP4s: a still with a moving square, exactly as long and large as asked, and a tone. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import sharp from 'sharp';
import { svgOf } from './draw.ts';
import { fetchInput } from './input.ts';
import { MediaInputError, type Media, type MediaInput } from './media.ts';
import { probeMp4, type VideoFacts } from './probe-mp4.ts';
import type { Size } from './size.ts';
import { withSound } from './soundtrack.ts';
import type { Tones } from './tones.ts';

/** A film to make. */
export interface Film extends Size {
  prompt: string;
  seed: number;
  durationSeconds: number;
  hasAudio: boolean;
  /** The picture the film begins with. */
  image?: MediaInput | undefined;
}

/** Maker of films. */
export interface Films {
  film: (film: Film) => Promise<Media>;
  probe: (input: MediaInput) => Promise<VideoFacts>;
}

/** Encoding costs about 25 ms of CPU a megapixel: this bounds a film to some 0.8 s (measured). */
const pixelsMax = 30_000_000;
const frameRates = [8, 4, 2] as const;
const soundFrameSeconds = 1152 / 44_100;

/** The highest frame rate that the budget affords. */
function frameRateOf({ width, height, durationSeconds }: Film): number {
  const pixels = width * height * durationSeconds;
  return frameRates.find((rate) => rate * pixels <= pixelsMax) ?? 1;
}

async function stillOf(film: Film): Promise<Buffer> {
  const { width, height, image } = film;
  const source = image ? await fetchInput(image) : svgOf({ ...film, index: 0, format: 'png' });
  try {
    const still = sharp(source).autoOrient().resize(width, height, { fit: 'cover' });
    return await still.ensureAlpha().raw().toBuffer();
  } catch (error) {
    if (image) throw new MediaInputError('decode', image);
    throw error;
  }
}

/** Sound as long as the film, or less by a frame: it is the pictures that say how long a film is. */
async function soundOf({ prompt, durationSeconds }: Film, tones: Tones): Promise<Buffer> {
  return tones.make({
    timbre: 'effect',
    name: prompt,
    durationSeconds: durationSeconds - soundFrameSeconds,
    format: { sampleRate: 44_100, bitrateKbps: 64 },
  });
}

async function makeFilm(film: Film, tones: Tones): Promise<Media> {
  const { width, height } = film;
  const fps = frameRateOf(film);
  const frames = Math.max(1, Math.round(film.durationSeconds * fps));
  const still = await stillOf(film);
  const worker = new Worker(new URL('film-worker.ts', import.meta.url), {
    workerData: { width, height, fps, frames, still },
  });
  const [bytes]: unknown[] = await once(worker, 'message');
  if (!(bytes instanceof Uint8Array)) throw new TypeError('the film worker sends bytes');
  return {
    bytes: film.hasAudio ? await withSound(bytes, await soundOf(film, tones)) : Buffer.from(bytes),
    contentType: 'video/mp4',
    extension: 'mp4',
    width,
    height,
    video: { durationSeconds: frames / fps, fps, frames },
  };
}

async function probe(input: MediaInput): Promise<VideoFacts> {
  const facts = probeMp4(await fetchInput(input));
  if (!facts) throw new MediaInputError('decode', input);
  return facts;
}

/** Real films of the size and length asked for. */
export function createFilms(tones: Tones): Films {
  return { film: (film) => makeFilm(film, tones), probe };
}

/** Films of 64×64, one for each length and with or without sound, for benchmarks. */
export function createTinyFilms(tones: Tones): Films {
  const tiny = { width: 64, height: 64, prompt: 'tiny', seed: 0 };
  const made = new Map<string, Promise<Media>>();
  return {
    film: async ({ durationSeconds, hasAudio }) => {
      const key = `${durationSeconds} ${hasAudio}`;
      const film = made.get(key) ?? makeFilm({ ...tiny, durationSeconds, hasAudio }, tones);
      made.set(key, film);
      return film;
    },
    probe: async () => ({ width: 64, height: 64, durationSeconds: 1, hasAudio: true }),
  };
}
