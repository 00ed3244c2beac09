/** Puts a film together: encoded pictures, repeated for as long as it takes, and perhaps an MP3's frames. */
import {
  BufferSource,
  BufferTarget,
  EncodedAudioPacketSource,
  EncodedPacket,
  EncodedPacketSink,
  EncodedVideoPacketSource,
  Input,
  MP4,
  Mp4OutputFormat,
  Output,
} from 'mediabunny';
import { assert } from '../../../domain/errors.ts';
import { walkMp3 } from './mp3.ts';

/** What a film is put together from. */
interface FilmParts {
  /** An MP4 of the pictures that are repeated, each a key frame. */
  loop: Uint8Array;
  /** Pictures a second. */
  fps: number;
  /** Pictures in all. */
  frames: number;
  /** Its sound, of one channel; null for none. */
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
  using input = new Input({ source: new BufferSource(loop), formats: [MP4] });
  const track = await input.getPrimaryVideoTrack();
  const decoderConfig = await track?.getDecoderConfig();
  assert(track && decoderConfig, 'the encoder writes a video track');
  const encoded: EncodedPacket[] = [];
  for await (const packet of new EncodedPacketSink(track).packets()) encoded.push(packet);
  for (let index = 0; index < frames; index += 1) {
    const picture = encoded[index % encoded.length];
    assert(picture, 'the encoder writes a picture');
    const packet = new EncodedPacket(picture.data, 'key', index / fps, 1 / fps);
    await pictures.add(packet, { decoderConfig });
  }
  pictures.close();
}

async function addSound(sound: EncodedAudioPacketSource, mp3: Buffer): Promise<void> {
  const facts = walkMp3(mp3);
  assert(facts, 'the sound is an MP3');
  const { offsets, sampleRate, samplesPerFrame } = facts;
  const seconds = samplesPerFrame / sampleRate;
  const decoderConfig = { codec: 'mp3', numberOfChannels: 1, sampleRate };
  for (const [index, end] of offsets.slice(1).entries()) {
    const frame = mp3.subarray(offsets[index], end);
    // One frame after the other: they are told in their order.
    await sound.add(new EncodedPacket(frame, 'key', index * seconds, seconds), { decoderConfig });
  }
  sound.close();
}
