/**
 * Makes short H.264 MP4s with the requested size and duration: a still with a moving square, and a
 * tone.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import sharp from 'sharp';
import { svgOf } from './draw.ts';
import type { PictureLoop } from './film-worker.ts';
import {
  fetchInput,
  MediaInputError,
  type Media,
  type MediaInput,
  type MediaSize,
} from './media.ts';
import { muxFilm } from './mux-film.ts';
import { probeVideo, type VideoFacts } from './probe.ts';
import type { Size } from './size.ts';
import type { Tones } from './tones.ts';

/** Film to make. */
export interface Film extends Size {
  prompt: string;
  seed: number;
  durationSeconds: number;
  hasAudio: boolean;
  /** First picture of the film. */
  image?: MediaInput | undefined;
}

/** Maker of films. */
export interface Films {
  film: (film: Film) => Promise<Media>;
  probe: (input: MediaInput) => Promise<VideoFacts>;
}

/** Pictures per second of all films. */
const fps = 4;
/**
 * Number of encoded pictures, which must be even (H.264 distinguishes a key frame from the previous
 * one by alternating ids); a film repeats them. Encoding costs about 30 ms of CPU per megapixel
 * (measured), so a film takes about 0.5 s at 4K and 0.1 s at 720p.
 */
const picturesEncoded = ({ width, height }: Size): number => (width * height > 2_100_000 ? 2 : 4);
const soundFrameSeconds = 1152 / 44_100;

async function stillOf(film: Film): Promise<Uint8Array<ArrayBuffer>> {
  const { width, height, image } = film;
  const source = image ? await fetchInput(image) : svgOf({ ...film, index: 0, format: 'png' });
  try {
    const still = sharp(source).autoOrient().resize(width, height, { fit: 'cover' });
    return new Uint8Array(await still.ensureAlpha().raw().toBuffer());
  } catch (error) {
    if (image) throw new MediaInputError('decode', image);
    throw error;
  }
}

/**
 * Sound as long as the film, or a frame shorter, because the pictures define the duration of a
 * film.
 */
async function soundOf({ prompt, durationSeconds }: Film, tones: Tones): Promise<Buffer> {
  return tones.make({
    timbre: 'effect',
    name: prompt,
    durationSeconds: durationSeconds - soundFrameSeconds,
    format: { sampleRate: 44_100, bitrateKbps: 64 },
  });
}

interface FilmMakers {
  tones: Tones;
  encode: Encode;
}

/** Encodes loops of pictures as MP4s, one after the other. */
type Encode = (loop: PictureLoop) => Promise<Uint8Array>;

/** Encoding thread; it starts with the first loop and does not keep the process alive. */
function createEncode(): Encode {
  let worker: Worker | undefined;
  let before: Promise<unknown> = Promise.resolve();

  async function encode(loop: PictureLoop): Promise<Uint8Array> {
    worker ??= new Worker(new URL('film-worker.ts', import.meta.url)).once('exit', () => {
      worker = undefined;
    });
    const thread = worker;
    thread.ref();
    thread.postMessage(loop, [loop.still.buffer]);
    const [bytes]: unknown[] = await once(thread, 'message');
    thread.unref();
    if (!(bytes instanceof Uint8Array)) throw new TypeError('the film worker sends bytes');
    return bytes;
  }

  return (loop) => {
    const encoded = before.then(() => encode(loop));
    before = encoded.catch(() => {});
    return encoded;
  };
}

async function makeFilm(film: Film, { tones, encode }: FilmMakers): Promise<Media> {
  const { width, height, hasAudio } = film;
  const frames = Math.max(1, Math.round(film.durationSeconds * fps));
  const still = await stillOf(film);
  const loop = await encode({ width, height, pictures: picturesEncoded(film), still });
  const mp3 = hasAudio ? await soundOf(film, tones) : null;
  return {
    bytes: await muxFilm({ loop, fps, frames, mp3 }),
    contentType: 'video/mp4',
    extension: 'mp4',
    width,
    height,
    video: { durationSeconds: frames / fps, fps, frames },
  };
}

async function probe(input: MediaInput): Promise<VideoFacts> {
  const facts = await probeVideo(await fetchInput(input));
  if (!facts) throw new MediaInputError('decode', input);
  return facts;
}

const tinyFacts: VideoFacts = { width: 64, height: 64, durationSeconds: 1, hasAudio: true };

/**
 * Makes films with the requested size and duration; while `size` is tiny, 64×64 films, one per
 * duration, with or without sound.
 */
export function createFilms(tones: Tones, size: MediaSize = { tiny: false }): Films {
  const makers = { tones, encode: createEncode() };
  const made = new Map<string, Promise<Media>>();
  const tinyFilm = ({ durationSeconds, hasAudio }: Film): Promise<Media> => {
    const key = `${durationSeconds} ${hasAudio}`;
    const tiny = { width: 64, height: 64, prompt: 'tiny', seed: 0, durationSeconds, hasAudio };
    const film = made.get(key) ?? makeFilm(tiny, makers);
    made.set(key, film);
    return film;
  };
  return {
    film: async (film) => (size.tiny ? tinyFilm(film) : makeFilm(film, makers)),
    probe: async (input) => (size.tiny ? tinyFacts : probe(input)),
  };
}
