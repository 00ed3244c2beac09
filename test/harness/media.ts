/** Makes media for inputs, and decodes media with independent programs. */
import { BufferSource, Input, ALL_FORMATS } from 'mediabunny';
import sharp from 'sharp';
import { createFilms, type Film } from '../../dev/sandbox/media/film.ts';
import { createTones } from '../../dev/sandbox/media/tones.ts';

/** Returns the bytes at a URL. @throws if the status is not 200 */
export async function download(url: string): Promise<Buffer> {
  const answer = await fetch(url);
  if (answer.status !== 200) throw new Error(`${url} answered ${answer.status}`);
  return Buffer.from(await answer.arrayBuffer());
}

/** The pixels of an image as RGBA. */
export async function readPixels(bytes: Buffer): Promise<{
  width: number;
  height: number;
  at: (x: number, y: number) => [number, number, number, number];
}> {
  const { data, info } = await sharp(bytes)
    .ensureAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  return {
    width: info.width,
    height: info.height,
    at(x, y) {
      const start = (y * info.width + x) * 4;
      const [red = 0, green = 0, blue = 0, alpha = 0] = data.subarray(start, start + 4);
      return [red, green, blue, alpha];
    },
  };
}

/** The properties of a video; a packet of each frame could be read. */
export async function readFilm(bytes: Buffer): Promise<{
  mimeType: string;
  codec: string | null;
  width: number;
  height: number;
  durationSeconds: number;
  frames: number;
}> {
  const input = new Input({ source: new BufferSource(bytes), formats: ALL_FORMATS });
  const track = await input.getPrimaryVideoTrack();
  if (!track) throw new Error('there is no video track');
  const { packetCount } = await track.computePacketStats();
  return {
    mimeType: await input.getMimeType(),
    codec: track.codec,
    width: track.displayWidth,
    height: track.displayHeight,
    durationSeconds: await input.computeDuration(),
    frames: packetCount,
  };
}

/** Returns a plain image with a disc in its middle, as PNG. */
export async function drawDisc(width: number, height: number): Promise<Buffer> {
  const radius = Math.floor(Math.min(width, height) / 4);
  const disc = Buffer.from(
    `<svg width="${width}" height="${height}"><rect width="100%" height="100%" fill="#ffffff"/>` +
      `<circle cx="${width / 2}" cy="${height / 2}" r="${radius}" fill="#c02020"/></svg>`,
  );
  return sharp(disc).png().toBuffer();
}

/** Returns a mask whose right half is white, as PNG. */
export async function drawHalfMask(width: number, height: number): Promise<Buffer> {
  const plain = (edge: number, background: string) =>
    sharp({ create: { width: edge, height, channels: 3, background } }).png();
  const input = await plain(width / 2, '#fff').toBuffer();
  return plain(width, '#000')
    .composite([{ input, left: width / 2, top: 0 }])
    .toBuffer();
}

/** Returns whether a picture has colors other than white between two shares of its width. */
export async function isPainted(bytes: Buffer, from: number, to: number): Promise<boolean> {
  const picture = await readPixels(bytes);
  for (let x = Math.floor(picture.width * from); x < picture.width * to; x += 2) {
    for (let y = 0; y < picture.height; y += 2) {
      const [red, green, blue] = picture.at(x, y);
      if (Math.min(red, green, blue) < 250) return true;
    }
  }
  return false;
}

/** Returns a film, by default of two seconds without sound, as MP4. */
export async function makeFilm(film: Partial<Film> = {}): Promise<Buffer> {
  const tiny = { width: 64, height: 64, durationSeconds: 2, hasAudio: false, prompt: 'x', seed: 0 };
  const { bytes } = await createFilms(createTones({ tiny: true })).film({ ...tiny, ...film });
  return Buffer.from(bytes);
}

/** Returns the sound of a voice, as MP3. */
export async function makeSpeech(durationSeconds: number): Promise<Buffer> {
  const format = { sampleRate: 44_100, bitrateKbps: 64 } as const;
  const tone = { name: 'x', timbre: 'speech', format, durationSeconds } as const;
  return Buffer.from(await createTones({ tiny: true }).generate(tone));
}
