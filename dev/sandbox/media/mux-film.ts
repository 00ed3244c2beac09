/** Assembles a video from encoded frames, which are repeated, and optionally the frames of an MP3. */
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

/** Parts of a video. */
interface FilmParts {
  /** MP4 with the frames to repeat, all key frames. */
  loop: Uint8Array;
  /** Frames per second. */
  fps: number;
  /** Total number of frames. */
  frames: number;
  /** Sound; null for none. */
  mp3: Buffer | null;
}

/** Assembles the video as an MP4 without encoding anything again. */
export async function muxFilm({ loop, fps, frames, mp3 }: FilmParts): Promise<Buffer> {
  const target = new BufferTarget();
  // Write the index at the end, so that a truncated video is unreadable.
  const output = new Output({ format: new Mp4OutputFormat({ fastStart: false }), target });
  const pictures = new EncodedVideoPacketSource('avc');
  output.addVideoTrack(pictures);
  const sound = mp3 && new EncodedAudioPacketSource('mp3');
  if (sound) output.addAudioTrack(sound);
  await output.start();
  // Both tracks must be added concurrently, because the muxer interleaves them.
  await Promise.all([addPictures(pictures, { loop, fps, frames }), sound && addSound(sound, mp3)]);
  await output.finalize();
  assert(target.buffer, 'the muxed film has no bytes');
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
    // Added one after the other, because packets must keep their order.
    await pictures.add(packet, { decoderConfig });
  }
  pictures.close();
}

async function addSound(sound: EncodedAudioPacketSource, mp3: Buffer): Promise<void> {
  const { packets, decoderConfig } = await readSound(mp3);
  for (const packet of packets) await sound.add(packet, { decoderConfig });
  sound.close();
}
