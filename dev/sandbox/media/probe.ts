/** Reads size, duration and sound of an MP4 from its boxes (ISO/IEC 14496-12), and the length of an MP3; no decoding. */
import { walkMp3 } from './mp3.ts';

/** What an MP4 says about its video track. */
export interface VideoFacts {
  width: number;
  height: number;
  durationSeconds: number;
  hasAudio: boolean;
}

interface Box {
  type: string;
  body: Buffer;
}

const headerBytes = 8;

function* boxesOf(bytes: Buffer): Generator<Box> {
  let at = 0;
  while (at + headerBytes <= bytes.length) {
    const shortSize = bytes.readUInt32BE(at);
    const isLong = shortSize === 1 && at + 16 <= bytes.length;
    const size = isLong ? Number(bytes.readBigUInt64BE(at + 8)) : shortSize || bytes.length - at;
    if (size < headerBytes) return;
    const type = bytes.toString('latin1', at + 4, at + 8);
    yield { type, body: bytes.subarray(at + (isLong ? 16 : headerBytes), at + size) };
    at += size;
  }
}

function find(bytes: Buffer, ...path: string[]): Buffer | undefined {
  const [type, ...rest] = path;
  if (type === undefined) return bytes;
  for (const box of boxesOf(bytes)) {
    const found = box.type === type ? find(box.body, ...rest) : undefined;
    if (found) return found;
  }
  return undefined;
}

/** Seconds of an `mvhd` box: version 1 has 64-bit times. */
function durationOf(header: Buffer): number {
  return header.readUInt8(0) === 1
    ? Number(header.readBigUInt64BE(24)) / header.readUInt32BE(20)
    : header.readUInt32BE(16) / header.readUInt32BE(12);
}

/** Whether a track is sound: by the handler of its media (`soun`). */
function isSound(track: Buffer): boolean {
  return find(track, 'mdia', 'hdlr')?.toString('latin1', 8, 12) === 'soun';
}

/** The facts of the first track with a picture; `undefined` when this is no MP4 with video. */
export function probeMp4(bytes: Buffer): VideoFacts | undefined {
  try {
    const movie = find(bytes, 'moov');
    const header = movie && find(movie, 'mvhd');
    if (!movie || !header) return undefined;
    const durationSeconds = durationOf(header);
    const tracks = [...boxesOf(movie)].filter(({ type }) => type === 'trak');
    const hasAudio = tracks.some(({ body }) => isSound(body));
    for (const { body } of tracks) {
      const track = find(body, 'tkhd');
      if (!track) continue;
      const width = Math.round(track.readUInt32BE(track.length - 8) / 65_536);
      const height = Math.round(track.readUInt32BE(track.length - 4) / 65_536);
      if (width > 0 && height > 0) return { width, height, durationSeconds, hasAudio };
    }
  } catch (error) {
    // Boxes that promise more bytes than there are.
    if (!(error instanceof RangeError)) throw error;
  }
  return undefined;
}

/** Duration in seconds of any MP4 or M4A; `undefined` when this is none. */
function mp4DurationSeconds(bytes: Buffer): number | undefined {
  try {
    const header = find(bytes, 'moov', 'mvhd');
    return header && durationOf(header);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return undefined;
  }
}

/** Seconds of a RIFF WAVE file: the data chunk's bytes over the format's bytes a second. */
function wavDurationSeconds(bytes: Buffer): number | undefined {
  let bytesPerSecond = 0;
  let at = 12;
  while (at + 8 <= bytes.length) {
    const id = bytes.toString('latin1', at, at + 4);
    const sizeBytes = bytes.readUInt32LE(at + 4);
    if (id === 'fmt ' && at + 20 <= bytes.length) bytesPerSecond = bytes.readUInt32LE(at + 16);
    if (id === 'data' && bytesPerSecond > 0) {
      // Streamed files claim a size of 2³² − 1: what is there counts.
      return Math.min(sizeBytes, bytes.length - at - 8) / bytesPerSecond;
    }
    at += 8 + sizeBytes + (sizeBytes % 2);
  }
  return undefined;
}

/** Duration in seconds of an MP3, WAV, MP4 or M4A; `undefined` when it is none of these. */
export function probeDurationSeconds(bytes: Buffer): number | undefined {
  if (bytes.toString('latin1', 4, 8) === 'ftyp') return mp4DurationSeconds(bytes);
  const isWav =
    bytes.toString('latin1', 0, 4) === 'RIFF' && bytes.toString('latin1', 8, 12) === 'WAVE';
  return isWav ? wavDurationSeconds(bytes) : walkMp3(bytes)?.durationSeconds;
}
