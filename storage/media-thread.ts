/**
 * Worker thread that media-reader.ts starts; media-reader.ts also defines its messages. Recognizes
 * and measures one file at a time.
 */
import { parentPort } from 'node:worker_threads';
import { fileTypeFromBuffer } from 'file-type';
import {
  EncodedPacketSink,
  Input,
  MATROSKA,
  MP4,
  QTFF,
  WEBM,
  type InputAudioTrack,
  type InputTrack,
  type InputVideoTrack,
} from 'mediabunny';
import { assert } from '../domain/errors.ts';
import { createMediaSource, openWindow, type ByteWindow } from './byte-source.ts';
import type { MediaFacts, MessageFromThread, MessageToThread } from './media-reader.ts';
import { recognizeFormat, signatureBytes, findMediaType, type MediaType } from './media-types.ts';
import { readPictureHeader, type PictureFormat } from './picture-header.ts';
import { readTagBytes } from './media-chunks.ts';
import { measureSound, readOpusSeconds, type SoundFormat } from './sound-length.ts';

assert(parentPort, 'media-thread.ts must run in a worker thread');
const parent = parentPort;
const send = (message: MessageFromThread): void => parent.postMessage(message, []);

/** Reads whose bytes have not arrived yet, keyed by read id. */
const pendingReads = new Map<number, PromiseWithResolvers<Uint8Array>>();
let readId = 0;

function read(start: number, end: number): Promise<Uint8Array> {
  const pending = Promise.withResolvers<Uint8Array>();
  readId += 1;
  pendingReads.set(readId, pending);
  send({ readId, start, end });
  return pending.promise;
}

/** Bytes that are loaded at a time: to jump between headers, and to read a whole file. */
const headerStepBytes = 32 * 1024;
const soundStepBytes = 1024 * 1024;
const pictureFormats: readonly string[] = [
  'png',
  'jpg',
  'webp',
  'gif',
  'heic',
  'avif',
] satisfies PictureFormat[];
const soundFormats: readonly string[] = [
  'wav',
  'mp3',
  'aac',
  'flac',
  'ogg',
] satisfies SoundFormat[];
const isPictureFormat = (extension: string): extension is PictureFormat =>
  pictureFormats.includes(extension);
const isSoundFormat = (extension: string): extension is SoundFormat =>
  soundFormats.includes(extension);

const refuse = (found: string): MediaFacts => ({ kind: 'refused', found });

function findType(extension: string): MediaType {
  const type = findMediaType(extension);
  assert(type, `the file type ${extension} is not defined`);
  return type;
}

async function inspect(sizeBytes: number): Promise<MediaFacts> {
  if (sizeBytes === 0) return refuse('empty');
  const file = openWindow({ read }, { sizeBytes, stepBytes: headerStepBytes });
  const start = await skipTags(file);
  const head = Buffer.from(await file.read(start, signatureBytes));
  const signature = recognizeFormat(head);
  if (!signature) return inspectUnknown(head, start, sizeBytes);
  if ('refused' in signature) return refuse(signature.refused);
  const [extension] = signature.extensions;
  if (isPictureFormat(extension)) return inspectPicture(extension, file);
  if (isSoundFormat(extension)) return inspectSound(extension, start, sizeBytes);
  return inspectContainer(sizeBytes, extension);
}

/** Returns the position after ID3 tags, which may precede several formats. */
async function skipTags(file: ByteWindow): Promise<number> {
  let position = 0;
  for (let tags = 0; tags < 8; tags += 1) {
    const tagBytes = readTagBytes(await file.read(position, 10));
    if (tagBytes === 0 || position + tagBytes >= file.sizeBytes) break;
    position += tagBytes;
  }
  return position;
}

async function inspectPicture(extension: PictureFormat, file: ByteWindow): Promise<MediaFacts> {
  const header = await readPictureHeader(extension, file);
  const type = findType(extension);
  return header
    ? { kind: 'picture', type, ...header }
    : refuse(`a damaged or cut-off ${type.name}`);
}

async function inspectSound(
  extension: SoundFormat,
  start: number,
  sizeBytes: number,
): Promise<MediaFacts> {
  const file = openWindow({ read }, { sizeBytes, stepBytes: soundStepBytes });
  const sound = await measureSound(extension, file, start);
  if ('found' in sound) return refuse(sound.found);
  const audio = { durationSeconds: sound.seconds };
  return { kind: 'recording', type: findType(extension), video: null, audio };
}

/** Names of common formats that are not accepted, by the extension that file-type returns. */
const refusedNames: Readonly<Record<string, string>> = {
  jxl: 'JPEG XL',
  aif: 'AIFF',
  asf: 'WMA or WMV (ASF)',
  ac3: 'AC-3',
  xml: 'XML or SVG',
  mts: 'an MPEG transport stream',
  ps: 'PostScript',
  mpg: 'an MPEG program stream',
  jp2: 'JPEG 2000',
  wv: 'WavPack',
};

/** Names a format that is not accepted, or finds MP3 or AAC that starts within a frame. */
async function inspectUnknown(head: Buffer, start: number, sizeBytes: number): Promise<MediaFacts> {
  const detected = await fileTypeFromBuffer(head);
  if (detected && !['mp3', 'aac'].includes(detected.ext)) {
    return refuse(refusedNames[detected.ext] ?? detected.ext.toUpperCase());
  }
  for (const extension of ['mp3', 'aac'] as const) {
    const facts = await inspectSound(extension, start, sizeBytes);
    if (facts.kind !== 'refused') return facts;
  }
  return refuse(
    /^\s*</.test(head.toString('latin1')) ? 'HTML, SVG or XML' : 'of an unknown format',
  );
}

/**
 * Returns the seconds from the start to the end of a track. What lies before 0 is not played, by
 * the rule of edit lists.
 */
async function measureTrack(track: InputTrack): Promise<number> {
  const start = Math.max(0, await track.getFirstTimestamp());
  return (await track.computeDuration()) - start;
}

/** Types of containers without picture, by the extension of those with it. */
const soundTypes: Readonly<Record<string, string>> = {
  mp4: 'm4a',
  mov: 'm4a',
  webm: 'weba',
  mkv: 'mka',
};

/** Returns the type of a container: that of sound if it has no picture. */
function findContainerType(type: MediaType, hasVideo: boolean): MediaType {
  const soundExtension = soundTypes[type.extension];
  return hasVideo || soundExtension === undefined ? type : findType(soundExtension);
}

/** Returns the length of the longest track in seconds: a provider may process any of them. */
const findLongest = async (tracks: readonly InputTrack[]): Promise<number> =>
  Math.max(...(await Promise.all(tracks.map(measureTrack))));

/**
 * Measures the picture of a film: the most pixels and the longest time of its tracks. Pixels are the
 * stored ones, upright: providers process and deliver these, whatever their shape.
 */
async function measureFilm(
  tracks: readonly InputVideoTrack[],
): Promise<(Size & { durationSeconds: number }) | null> {
  const sizes = tracks.map(({ rotation, codedWidth, codedHeight }): Size =>
    rotation % 180 === 0
      ? { width: codedWidth, height: codedHeight }
      : { width: codedHeight, height: codedWidth },
  );
  const [largest] = sizes.toSorted((a, b) => b.width * b.height - a.width * a.height);
  return largest ? { ...largest, durationSeconds: await findLongest(tracks) } : null;
}

interface Size {
  width: number;
  height: number;
}

async function inspectContainer(sizeBytes: number, likeliest: string): Promise<MediaFacts> {
  const size = (): Promise<number> => Promise.resolve(sizeBytes);
  const source = createMediaSource({ size, read, close: () => Promise.resolve() });
  const input = new Input({ source, formats: [MP4, QTFF, MATROSKA, WEBM] });
  try {
    const videoTracks = await input.getVideoTracks();
    const audioTracks = await input.getAudioTracks();
    const mimeType = await input.getMimeType();
    const container = findMediaType(mimeType) ?? findType(likeliest);
    if (videoTracks.length + audioTracks.length === 0) {
      return refuse(`a damaged or cut-off ${findType(likeliest).name}`);
    }
    const type = findContainerType(container, videoTracks.length > 0);
    const video = await measureFilm(videoTracks);
    const audio =
      audioTracks.length > 0 ? { durationSeconds: await findLongest(audioTracks) } : null;
    // Prices depend on these numbers, which can be NaN or 0 in an invalid file.
    const lengths = [video, audio].flatMap((track) => track?.durationSeconds ?? []);
    const isMeasured =
      lengths.every((seconds) => Number.isFinite(seconds) && seconds >= 0) &&
      (!video || (video.width > 0 && video.height > 0));
    if (!isMeasured) return refuse(`${type.name} whose length or size is undefined`);
    for (const track of audioTracks) {
      const lie = await findFalseClock(track);
      if (lie) return refuse(`${type.name} ${lie}`);
    }
    if (audio && !video) {
      const lie = findImpossibleSize(audioTracks, audio.durationSeconds, sizeBytes);
      if (lie) return refuse(`${type.name} ${lie}`);
    }
    return { kind: 'recording', type, video, audio };
  } catch {
    return refuse(`a damaged or cut-off ${findType(likeliest).name}`);
  } finally {
    input.dispose();
  }
}

/** Number of sound packets whose lengths are compared with their timestamps. */
const packetsCompared = 500;
/** How much longer than its timestamps sound may be: a factor, and seconds. */
const clockTolerance = { factor: 1.25, seconds: 0.5 };

/**
 * Compares the length that the codec gives to the first packets of sound with that of their
 * timestamps. Returns a description of timestamps that are too short; null if they are plausible,
 * or if the codec does not define the length of a packet.
 */
async function findFalseClock(track: InputAudioTrack): Promise<string | null> {
  const { codec, sampleRate } = track;
  if (codec !== 'opus' && codec !== 'aac' && codec !== 'mp3') return null;
  const samples = codec === 'aac' ? 1024 : sampleRate < 32_000 ? 576 : 1152;
  // Low-delay profiles of AAC have shorter packets.
  if (codec === 'aac' && !/\.(2|5|29)$/.test((await track.getCodecParameterString()) ?? '')) {
    return null;
  }
  const sink = new EncodedPacketSink(track);
  const options = { metadataOnly: codec !== 'opus' };
  let [stated, actual, count] = [0, 0, 0];
  let packet = await sink.getFirstPacket(options);
  while (packet && count < packetsCompared) {
    stated += packet.duration;
    actual += codec === 'opus' ? readOpusSeconds(packet.data) : samples / sampleRate;
    count += 1;
    packet = await sink.getNextPacket(packet, options);
  }
  const { factor, seconds } = clockTolerance;
  if (actual <= stated * factor + seconds) return null;
  return `whose timestamps are too short for its sound (${stated.toFixed(1)} seconds for ${actual.toFixed(1)})`;
}

/** Codecs whose packets have at most 6144 bits for 1024 samples of a channel, the limit of AAC. */
const lossyCodecs: readonly string[] = ['aac', 'opus', 'mp3', 'vorbis'];
/** Lowest limit of bits per second: the most of Opus, which may use them for one channel. */
const bitRateMin = 512_000;
/** Bytes of a file that may be other than sound: pictures and tags. */
const metadataBytesMax = 8 * 1024 * 1024;

/**
 * Compares the size of a file without pictures with the highest bit rate of its codecs. Returns a
 * description of a length that is too short for that size; null if it is plausible.
 */
function findImpossibleSize(
  tracks: readonly InputAudioTrack[],
  stated: number,
  sizeBytes: number,
): string | null {
  const bitRates = tracks.map(({ codec, sampleRate, numberOfChannels }) => {
    const sampleBits = codec !== null && lossyCodecs.includes(codec) ? 6 : 32;
    return Math.max(bitRateMin, sampleBits * sampleRate * numberOfChannels);
  });
  const bitRate = bitRates.reduce((sum, rate) => sum + rate, 0);
  const least = ((sizeBytes - metadataBytesMax) * 8) / bitRate;
  const { factor, seconds } = clockTolerance;
  if (least <= stated * factor + seconds) return null;
  return `whose timestamps are too short for its size (${stated.toFixed(1)} seconds for at least ${least.toFixed(1)})`;
}

async function respond(sizeBytes: number): Promise<void> {
  const facts = await inspect(sizeBytes).catch(() => refuse('a damaged file'));
  pendingReads.clear();
  send({ facts });
}

parent.on('message', (message: MessageToThread) => {
  if ('sizeBytes' in message) {
    void respond(message.sizeBytes);
    return;
  }
  const pending = pendingReads.get(message.readId);
  pendingReads.delete(message.readId);
  if (message.bytes) pending?.resolve(message.bytes);
  else pending?.reject(new Error('the byte range cannot be read'));
});
