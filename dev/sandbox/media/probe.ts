/** Reads properties and encoded packets of audio and video files, without decoding them. */
import {
  ALL_FORMATS,
  BufferSource,
  EncodedPacketSink,
  Input,
  type AudioCodec,
  type EncodedPacket,
  type InputTrack,
  type VideoCodec,
} from 'mediabunny';
import { assert } from '../../../domain/errors.ts';

/** Properties of a video. */
export interface VideoProperties {
  width: number;
  height: number;
  durationSeconds: number;
  hasAudio: boolean;
}

function open(bytes: Uint8Array): Input {
  return new Input({ source: new BufferSource(bytes), formats: ALL_FORMATS });
}

/** Reads the properties of a video; undefined if the bytes are not a video. */
export async function probeVideo(bytes: Uint8Array): Promise<VideoProperties | undefined> {
  using input = open(bytes);
  try {
    const track = await input.getPrimaryVideoTrack();
    if (!track) return undefined;
    const { displayWidth: width, displayHeight: height } = track;
    const hasAudio = (await input.getPrimaryAudioTrack()) !== null;
    return { width, height, durationSeconds: await input.computeDuration(), hasAudio };
  } catch {
    return undefined;
  }
}

/** Reads the duration of an audio or video file in seconds; undefined if the bytes are neither. */
export async function probeDurationSeconds(bytes: Uint8Array): Promise<number | undefined> {
  using input = open(bytes);
  return await input.computeDuration().catch(() => undefined);
}

/** Packets of a track in order, its codec and its decoder configuration. */
interface Track<Codec, Config> {
  packets: [EncodedPacket, ...EncodedPacket[]];
  codec: Codec;
  decoderConfig: Config;
}

/** Sound of a file. */
export type SoundTrack = Track<AudioCodec, AudioDecoderConfig>;

/** Pictures of a video. */
export type PictureTrack = Track<VideoCodec, VideoDecoderConfig>;

async function readTrack<Codec, Config>(
  track:
    | (InputTrack & { codec: Codec | null; getDecoderConfig: () => Promise<Config | null> })
    | null,
): Promise<Track<Codec, Config>> {
  const decoderConfig = await track?.getDecoderConfig();
  const codec = track?.codec;
  assert(track && codec && decoderConfig, 'the file has no such track');
  const packets: EncodedPacket[] = [];
  for await (const packet of new EncodedPacketSink(track).packets()) packets.push(packet);
  const [first, ...others] = packets;
  assert(first, 'the track has no packets');
  return { packets: [first, ...others], codec, decoderConfig };
}

/** Reads the audio track of a file. @throws if it has none */
export async function readSound(bytes: Uint8Array): Promise<SoundTrack> {
  using input = open(bytes);
  return await readTrack(await input.getPrimaryAudioTrack());
}

/** Reads the video track of a file. @throws if it has none */
export async function readPictures(bytes: Uint8Array): Promise<PictureTrack> {
  using input = open(bytes);
  return await readTrack(await input.getPrimaryVideoTrack());
}
