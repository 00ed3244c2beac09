/** Short real H.264 MP4s: a still with a moving square, exactly as long and large as asked. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import sharp from 'sharp';
import { svgOf } from './draw.ts';
import { fetchInput } from './input.ts';
import { MediaInputError, type Media, type MediaInput } from './media.ts';
import { probeMp4, type VideoFacts } from './probe-mp4.ts';
import type { Size } from './size.ts';

/** A film to make. There is no audio track: no encoder for one is at hand. */
export interface Film extends Size {
  prompt: string;
  seed: number;
  durationSeconds: number;
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

async function makeFilm(film: Film): Promise<Media> {
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
    bytes: Buffer.from(bytes),
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
export const fullFilms: Films = { film: makeFilm, probe };

/** One film of 64×64 and one second, made once, for benchmarks. */
export function createTinyFilms(): Films {
  const tiny = { width: 64, height: 64, durationSeconds: 1 };
  let made: Promise<Media> | undefined;
  return {
    film: async () => (made ??= makeFilm({ ...tiny, prompt: 'tiny', seed: 0 })),
    probe: async () => tiny,
  };
}
