/** Puts a film together: encoded pictures, repeated for as long as it takes, and perhaps an MP3's frames. */
import {
  BufferTarget,
  EncodedAudioPacketSource,
  EncodedPacket,
  EncodedVideoPacketSource,
  Mp4OutputFormat,
  Output,
} from 'mediabunny';
import { assert } from '../../../domain/errors.ts';
import { readPictures, readSound } from './probe.ts';

/** What a film is put together from. */
interface FilmParts {
  /** An MP4 of the pictures that are repeated, each a key frame. */
  loop: Uint8Array;
  /** Pictures a second. */
  fps: number;
  /** Pictures in all. */
  frames: number;
  /** Its sound; null for none. */
  mp3: Buffer | null;
}

/** The film as an MP4; nothing is encoded again. */
export async function muxFilm({ loop, fps, frames, mp3 }: FilmParts): Promise<Buffer> {
  const target = new BufferTarget();
  // The index behind the pictures: half a film is none then.
  const output = new Output({ format: new Mp4OutputFormat({ fastStart: false }), target });
  const pictures = new EncodedVideoPacketSource('avc');
  output.addVideoTrack(pictures);
  const sound = mp3 && new EncodedAudioPacketSource('mp3');
  if (sound) output.addAudioTrack(sound);
  await output.start();
  // Both at once: they are written in turns, and each waits for the other.
  await Promise.all([addPictures(pictures, { loop, fps, frames }), sound && addSound(sound, mp3)]);
  await output.finalize();
  assert(target.buffer, 'a finished film has bytes');
  return Buffer.from(target.buffer);
}

async function addPictures(
  pictures: EncodedVideoPacketSource,
  { loop, fps, frames }: Omit<FilmParts, 'mp3'>,
): Promise<void> {
  const { packets, decoderConfig } = await readPictures(loop);
  for (let index = 0; index < frames; index += 1) {
    const { data } = packets[index % packets.length] ?? packets[0];
    const packet = new EncodedPacket(data, 'key', index / fps, 1 / fps);
    // One after the other: they are told in their order.
    await pictures.add(packet, { decoderConfig });
  }
  pictures.close();
}

async function addSound(sound: EncodedAudioPacketSource, mp3: Buffer): Promise<void> {
  const { packets, decoderConfig } = await readSound(mp3);
  for (const packet of packets) await sound.add(packet, { decoderConfig });
  sound.close();
}
