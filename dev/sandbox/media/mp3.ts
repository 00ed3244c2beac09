/** MPEG audio layer III by its frame headers (ISO/IEC 11172-3, 13818-3): measuring and cutting. */

const kilobits = {
  mpeg1: [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  mpeg2: [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
};
/** By the version bits of the header: MPEG 2.5, reserved, MPEG 2, MPEG 1. */
const sampleRates = [
  [11_025, 12_000, 8000],
  [],
  [22_050, 24_000, 16_000],
  [44_100, 48_000, 32_000],
];
const mpeg1 = 3;
const headerBytes = 4;

interface Frame {
  sizeBytes: number;
  samples: number;
  sampleRate: number;
}

/** The frame that begins here, if one does. */
function frameAt(bytes: Buffer, at: number): Frame | undefined {
  if (at + headerBytes > bytes.length) return undefined;
  const header = bytes.readUInt32BE(at);
  const version = (header >>> 19) & 3;
  // Eleven sync bits, then layer III.
  if (header >>> 21 !== 0x7ff || ((header >>> 17) & 3) !== 1) return undefined;
  const rates = version === mpeg1 ? kilobits.mpeg1 : kilobits.mpeg2;
  const rate = rates[((header >>> 12) & 15) - 1];
  const sampleRate = sampleRates[version]?.[(header >>> 10) & 3];
  if (rate === undefined || sampleRate === undefined) return undefined;
  const samples = version === mpeg1 ? 1152 : 576;
  const padding = (header >>> 9) & 1;
  return {
    sizeBytes: Math.floor((samples / 8) * 1000 * (rate / sampleRate)) + padding,
    samples,
    sampleRate,
  };
}

/** Bytes of the ID3v2 tag in front, 0 when there is none. */
function tagBytes(bytes: Buffer): number {
  if (bytes.length < 10 || bytes.toString('latin1', 0, 3) !== 'ID3') return 0;
  const [a = 0, b = 0, c = 0, d = 0] = bytes.subarray(6, 10);
  return 10 + (a << 21) + (b << 14) + (c << 7) + d;
}

/** What walking an MP3 frame by frame finds. */
export interface Mp3Facts {
  /** Where each whole frame begins, in bytes, and at last where the last one ends. */
  offsets: number[];
  sampleRate: number;
  samplesPerFrame: number;
  durationSeconds: number;
}

/** Walks an MP3's frames; `undefined` when it does not begin with two of them (or one alone). */
export function walkMp3(bytes: Buffer): Mp3Facts | undefined {
  let at = tagBytes(bytes);
  const first = frameAt(bytes, at);
  if (!first) return undefined;
  const offsets = [at];
  for (let frame: Frame | undefined = first; frame; frame = frameAt(bytes, at)) {
    if (at + frame.sizeBytes > bytes.length) break;
    at += frame.sizeBytes;
    offsets.push(at);
  }
  const frames = offsets.length - 1;
  if (frames === 0) return undefined;
  const { samples, sampleRate } = first;
  const durationSeconds = (frames * samples) / sampleRate;
  return { offsets, sampleRate, samplesPerFrame: samples, durationSeconds };
}

/** This many frames of an MP3, starting over at its end as often as it takes. */
export function loopMp3(bytes: Buffer, { offsets }: Mp3Facts, frames: number): Buffer {
  const start = offsets[0] ?? 0;
  const end = offsets.at(-1) ?? 0;
  const loopFrames = offsets.length - 1;
  const whole = Math.floor(frames / loopFrames);
  const restBytes = (offsets[frames % loopFrames] ?? start) - start;
  const looped = Buffer.alloc(whole * (end - start) + restBytes);
  for (let round = 0; round <= whole; round += 1) {
    // The last round copies what still fits.
    bytes.copy(looped, round * (end - start), start, end);
  }
  return looped;
}
