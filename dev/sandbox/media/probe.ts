/** Reads media: what a recording or a film is, and its encoded packets. Nothing is decoded. */
import {
  ALL_FORMATS,
  BufferSource,
  EncodedPacketSink,
  Input,
  type EncodedPacket,
  type InputTrack,
} from 'mediabunny';
import { assert } from '../../../domain/errors.ts';

/** What a film says about itself. */
export interface VideoFacts {
  width: number;
  height: number;
  durationSeconds: number;
  hasAudio: boolean;
}

function open(bytes: Uint8Array): Input {
  return new Input({ source: new BufferSource(bytes), formats: ALL_FORMATS });
}

/** The facts of a film; `undefined` when this is none. */
export async function probeVideo(bytes: Uint8Array): Promise<VideoFacts | undefined> {
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

/** Duration in seconds of a recording or a film; `undefined` when this is neither. */
export async function probeDurationSeconds(bytes: Uint8Array): Promise<number | undefined> {
  using input = open(bytes);
  return await input.computeDuration().catch(() => undefined);
}

/** A track's packets in their order, and what a decoder must know of them. */
interface Track<Config> {
  packets: [EncodedPacket, ...EncodedPacket[]];
  decoderConfig: Config;
}

async function readTrack<Config>(
  track: (InputTrack & { getDecoderConfig: () => Promise<Config | null> }) | null,
): Promise<Track<Config>> {
  const decoderConfig = await track?.getDecoderConfig();
  assert(track && decoderConfig, 'there is such a track');
  const packets: EncodedPacket[] = [];
  for await (const packet of new EncodedPacketSink(track).packets()) packets.push(packet);
  const [first, ...others] = packets;
  assert(first, 'the track has packets');
  return { packets: [first, ...others], decoderConfig };
}

/** The sound of a file of ours. */
export async function readSound(bytes: Uint8Array): Promise<Track<AudioDecoderConfig>> {
  using input = open(bytes);
  return await readTrack(await input.getPrimaryAudioTrack());
}

/** The pictures of a file of ours. */
export async function readPictures(bytes: Uint8Array): Promise<Track<VideoDecoderConfig>> {
  using input = open(bytes);
  return await readTrack(await input.getPrimaryVideoTrack());
}
