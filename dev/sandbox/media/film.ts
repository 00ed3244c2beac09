/** Generates short H.264 MP4s with the requested size and duration: a still image with a moving square, and a tone. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import sharp from 'sharp';
import { drawSvg } from './draw.ts';
import type { PictureLoop } from './film-worker.ts';
import {
  fetchInput,
  MediaInputError,
  type Media,
  type MediaInput,
  type MediaSize,
} from './media.ts';
import { composeFilm, type Section, type TimeLine } from './compose-film.ts';
import { muxFilm } from './mux-film.ts';
import { probeVideo, type VideoProperties } from './probe.ts';
import type { Size } from './size.ts';
import type { Tones } from './tones.ts';

/** Properties of the video to generate. */
export interface Film extends Size {
  prompt: string;
  seed: number;
  durationSeconds: number;
  hasAudio: boolean;
  /** Image to use as the still. */
  image?: MediaInput | undefined;
}

/** Generates and reads videos. */
export interface Films {
  film: (film: Film) => Promise<Media>;
  /**
   * Joins videos with their sound.
   * @throws MediaInputError if an input cannot be read
   */
  join: (inputs: readonly MediaInput[]) => Promise<Media>;
  /**
   * Places videos and sounds on a time line.
   * @throws MediaInputError if an input cannot be read
   */
  compose: (timeLine: TimeLine) => Promise<Media>;
  probe: (input: MediaInput) => Promise<VideoProperties>;
}

/** Frames per second of all videos. */
const fps = 4;
/**
 * Number of frames to encode; the video repeats them. It must be even, because H.264 distinguishes consecutive key frames by
 * alternating ids. Encoding takes about 30 ms of CPU per megapixel (measured): about 0.5 s for a video in 4K, and 0.1 s in
 * 720p.
 */
const countEncodedFrames = ({ width, height }: Size): number =>
  width * height > 2_100_000 ? 2 : 4;
const soundFrameSeconds = 1152 / 44_100;

async function drawStill(film: Film): Promise<Uint8Array<ArrayBuffer>> {
  const { width, height, image } = film;
  const source = image ? await fetchInput(image) : drawSvg({ ...film, index: 0, format: 'png' });
  try {
    const still = sharp(source).autoOrient().resize(width, height, { fit: 'cover' });
    return new Uint8Array(await still.ensureAlpha().raw().toBuffer());
  } catch (error) {
    if (image) throw new MediaInputError('decode', image);
    throw error;
  }
}

/** Generates sound for a video, one audio frame shorter, because the duration of the file must be that of the pictures. */
async function generateSound({ prompt, durationSeconds }: Film, tones: Tones): Promise<Buffer> {
  return tones.generate({
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

/** Encodes sequences of frames as MP4s, one after the other. */
type Encode = (loop: PictureLoop) => Promise<Uint8Array>;

/** Creates the encoder. Its thread starts with the first sequence and does not keep the process alive. */
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
    if (!(bytes instanceof Uint8Array))
      throw new TypeError('the film worker sent a message without bytes');
    return bytes;
  }

  return (loop) => {
    const encoded = before.then(() => encode(loop));
    before = encoded.catch(() => {});
    return encoded;
  };
}

async function generateFilm(film: Film, { tones, encode }: FilmMakers): Promise<Media> {
  const { width, height, hasAudio } = film;
  const frames = Math.max(1, Math.round(film.durationSeconds * fps));
  const still = await drawStill(film);
  const loop = await encode({ width, height, pictures: countEncodedFrames(film), still });
  const mp3 = hasAudio ? await generateSound(film, tones) : null;
  return {
    bytes: await muxFilm({ loop, fps, frames, mp3 }),
    contentType: 'video/mp4',
    extension: 'mp4',
    width,
    height,
    video: { durationSeconds: frames / fps, fps, frames },
  };
}

async function probe(input: MediaInput): Promise<VideoProperties> {
  const properties = await probeVideo(await fetchInput(input));
  if (!properties) throw new MediaInputError('decode', input);
  return properties;
}

/** Places videos one after the other, with their sound. */
async function placeInOrder(inputs: readonly MediaInput[]): Promise<TimeLine> {
  const videos: Section[] = [];
  const sounds: Section[] = [];
  let startSeconds = 0;
  for (const input of inputs) {
    const { durationSeconds, hasAudio } = await probe(input);
    const section = { input, startSeconds, durationSeconds };
    videos.push(section);
    if (hasAudio) sounds.push(section);
    startSeconds += durationSeconds;
  }
  return { videos, sounds };
}

const tinyProperties: VideoProperties = {
  width: 64,
  height: 64,
  durationSeconds: 1,
  hasAudio: true,
};

/**
 * Creates a generator of videos. While `size.tiny` is set, all videos are 64×64, and those with the same duration and sound
 * are generated once.
 */
export function createFilms(tones: Tones, size: MediaSize = { tiny: false }): Films {
  const makers = { tones, encode: createEncode() };
  const tinyFilms = new Map<string, Promise<Media>>();
  const tinyFilm = ({ durationSeconds, hasAudio }: Film): Promise<Media> => {
    const key = `${durationSeconds} ${hasAudio}`;
    const tiny = { width: 64, height: 64, prompt: 'tiny', seed: 0, durationSeconds, hasAudio };
    const film = tinyFilms.get(key) ?? generateFilm(tiny, makers);
    tinyFilms.set(key, film);
    return film;
  };
  const film = async (wanted: Film): Promise<Media> =>
    size.tiny ? tinyFilm(wanted) : generateFilm(wanted, makers);
  return {
    film,
    join: async (inputs) => composeFilm(await placeInOrder(inputs), film),
    compose: (timeLine) => composeFilm(timeLine, film),
    probe: async (input) => (size.tiny ? tinyProperties : probe(input)),
  };
}
