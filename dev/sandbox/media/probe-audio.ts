/** How long an audio or video file lasts, by its container, without decoding it. */
import { walkMp3 } from './mp3.ts';
import { mp4DurationSeconds } from './probe-mp4.ts';

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
