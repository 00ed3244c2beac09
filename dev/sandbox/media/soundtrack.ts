/** Gives a silent film a sound track: its packets and those of an MP3, in one new MP4. */
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
import { assert } from '../../../domain/assert.ts';
import { walkMp3 } from './mp3.ts';

/** The film with this MP3 (of one channel) as its sound; nothing is encoded again. */
export async function withSound(film: Uint8Array, mp3: Buffer): Promise<Buffer> {
  const input = new Input({ source: new BufferSource(film), formats: [MP4] });
  const track = await input.getPrimaryVideoTrack();
  const decoderConfig = await track?.getDecoderConfig();
  assert(track && decoderConfig, 'the encoder writes a video track');
  const target = new BufferTarget();
  // The index behind the pictures, as the encoder has it: half a film is none then.
  const output = new Output({ format: new Mp4OutputFormat({ fastStart: false }), target });
  const pictures = new EncodedVideoPacketSource('avc');
  const sound = new EncodedAudioPacketSource('mp3');
  output.addVideoTrack(pictures);
  output.addAudioTrack(sound);
  await output.start();
  const addPictures = async () => {
    for await (const packet of new EncodedPacketSink(track).packets()) {
      await pictures.add(packet, { decoderConfig });
    }
    pictures.close();
  };
  // Both at once: they are written in turns, and each waits for the other.
  await Promise.all([addPictures(), addFrames(sound, mp3)]);
  await output.finalize();
  input.dispose();
  assert(target.buffer, 'a finished film has bytes');
  return Buffer.from(target.buffer);
}

async function addFrames(sound: EncodedAudioPacketSource, mp3: Buffer): Promise<void> {
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
