/** Joins videos and sounds as one MP4, without encoding anything again. */
import { isDeepStrictEqual } from 'node:util';
import {
  BufferTarget,
  EncodedAudioPacketSource,
  EncodedVideoPacketSource,
  Mp4OutputFormat,
  Output,
  type EncodedPacket,
} from 'mediabunny';
import { assert } from '../../../domain/errors.ts';
import type { Film } from './film.ts';
import { fetchInput, MediaInputError, type Media, type MediaInput } from './media.ts';
import { readPictures, readSound, type PictureTrack, type SoundTrack } from './probe.ts';

/** Section of a time line: an input, and its place in the result. */
export interface Section {
  input: MediaInput;
  startSeconds: number;
  durationSeconds: number;
}

/** Videos and sounds of the result. */
export interface TimeLine {
  videos: Section[];
  sounds: Section[];
}

/** Section whose track has been read. */
type ReadSection<Track> = Omit<Section, 'input'> & { track: Track };

async function readSection<Track>(
  { input, ...place }: Section,
  read: (bytes: Uint8Array) => Promise<Track>,
): Promise<ReadSection<Track>> {
  const bytes = await fetchInput(input);
  try {
    return { ...place, track: await read(bytes) };
  } catch {
    throw new MediaInputError('decode', input);
  }
}

/** Returns the sections that can share a track with the first one. */
function takeSameFormat<Track extends PictureTrack | SoundTrack>(
  sections: readonly ReadSection<Track>[],
): ReadSection<Track>[] {
  return sections.filter(({ track }) =>
    isDeepStrictEqual(track.decoderConfig, sections[0]?.track.decoderConfig),
  );
}

/** Generates a video with the smallest width and height of the sections, and the duration of all. */
async function generateInstead(
  sections: readonly ReadSection<PictureTrack>[],
  generate: (film: Film) => Promise<Media>,
): Promise<ReadSection<PictureTrack>> {
  const sizes = sections.map(({ track }) => track.decoderConfig);
  const film = await generate({
    prompt: 'merged',
    seed: 0,
    width: Math.min(...sizes.map(({ codedWidth = 64 }) => codedWidth)),
    height: Math.min(...sizes.map(({ codedHeight = 64 }) => codedHeight)),
    durationSeconds: findEnd(sections),
    hasAudio: false,
  });
  const track = await readPictures(film.bytes);
  return { startSeconds: 0, durationSeconds: findEnd(sections), track };
}

const findEnd = (sections: readonly Omit<Section, 'input'>[]): number =>
  Math.max(...sections.map(({ startSeconds, durationSeconds }) => startSeconds + durationSeconds));

/**
 * Joins the sections of a time line. Videos of different formats cannot be joined without an
 * encoder, so that one is generated instead. Sounds at the same time cannot be mixed without a
 * decoder: the last sections replace earlier ones that they overlap.
 */
export async function composeFilm(
  { videos, sounds }: TimeLine,
  generate: (film: Film) => Promise<Media>,
): Promise<Media> {
  const read = await Promise.all(videos.map((section) => readSection(section, readPictures)));
  const isJoinable = takeSameFormat(read).length === read.length;
  const pictures = isJoinable ? read : [await generateInstead(read, generate)];
  const audible = sounds.filter(
    ({ startSeconds, durationSeconds }, index) =>
      !sounds
        .slice(index + 1)
        .some(
          (later) =>
            later.startSeconds < startSeconds + durationSeconds &&
            startSeconds < later.startSeconds + later.durationSeconds,
        ),
  );
  const readSounds = await Promise.all(audible.map((section) => readSection(section, readSound)));
  const [first] = pictures;
  const durationSeconds = findEnd(pictures);
  const frames = pictures.reduce((sum, { track }) => sum + track.packets.length, 0);
  return {
    bytes: await muxSections(pictures, takeSameFormat(readSounds)),
    contentType: 'video/mp4',
    extension: 'mp4',
    width: first?.track.decoderConfig.codedWidth ?? 0,
    height: first?.track.decoderConfig.codedHeight ?? 0,
    video: { durationSeconds, fps: frames / durationSeconds, frames },
  };
}

async function muxSections(
  pictures: readonly ReadSection<PictureTrack>[],
  sounds: readonly ReadSection<SoundTrack>[],
): Promise<Buffer> {
  const target = new BufferTarget();
  const output = new Output({ format: new Mp4OutputFormat({ fastStart: false }), target });
  const [firstPicture] = pictures;
  assert(firstPicture, 'a time line has no videos');
  const video = new EncodedVideoPacketSource(firstPicture.track.codec);
  output.addVideoTrack(video);
  const [firstSound] = sounds;
  const audio = firstSound && new EncodedAudioPacketSource(firstSound.track.codec);
  if (audio) output.addAudioTrack(audio);
  await output.start();
  // Both tracks must be added concurrently, because the muxer interleaves them.
  await Promise.all([
    addSections(pictures, ({ decoderConfig }, packet) => video.add(packet, { decoderConfig })).then(
      () => video.close(),
    ),
    audio &&
      addSections(sounds, ({ decoderConfig }, packet) => audio.add(packet, { decoderConfig })).then(
        () => audio.close(),
      ),
  ]);
  await output.finalize();
  assert(target.buffer, 'the composed film has no bytes');
  return Buffer.from(target.buffer);
}

/** Adds the packets of all sections, each at its place and at most for its duration. */
async function addSections<Track extends { packets: EncodedPacket[] }>(
  sections: readonly ReadSection<Track>[],
  add: (track: Track, packet: EncodedPacket) => Promise<void>,
): Promise<void> {
  for (const { track, startSeconds, durationSeconds } of sections) {
    for (const packet of track.packets) {
      const seconds = Math.max(0, packet.timestamp);
      // A packet that ends after its section would overlap the next one.
      if (seconds + packet.duration > durationSeconds + 0.002) continue;
      // Added one after the other, because packets must keep their order.
      await add(track, packet.clone({ timestamp: startSeconds + seconds }));
    }
  }
}
