/**
 * Assembles a film: encoded pictures, repeated up to its duration, and optionally the frames of an
 * MP3.
 */
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

/** Parts of a film. */
interface FilmParts {
  /** MP4 with the pictures to repeat, each a key frame. */
  loop: Uint8Array;
  /** Pictures per second. */
  fps: number;
  /** Total number of pictures. */
  frames: number;
  /** Sound; null: none. */
  mp3: Buffer | null;
}

/** Returns the film as an MP4; nothing is encoded again. */
export async function muxFilm({ loop, fps, frames, mp3 }: FilmParts): Promise<Buffer> {
  const target = new BufferTarget();
  // The index follows the pictures, so that a truncated film is unreadable.
  const output = new Output({ format: new Mp4OutputFormat({ fastStart: false }), target });
  const pictures = new EncodedVideoPacketSource('avc');
  output.addVideoTrack(pictures);
  const sound = mp3 && new EncodedAudioPacketSource('mp3');
  if (sound) output.addAudioTrack(sound);
  await output.start();
  // In parallel, because the two tracks are interleaved and wait for each other.
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
    // Sequential, because packets must be added in their order.
    await pictures.add(packet, { decoderConfig });
  }
  pictures.close();
}

async function addSound(sound: EncodedAudioPacketSource, mp3: Buffer): Promise<void> {
  const { packets, decoderConfig } = await readSound(mp3);
  for (const packet of packets) await sound.add(packet, { decoderConfig });
  sound.close();
}
