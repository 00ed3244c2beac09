/**
 * Measures sound by counting its frames, pages or bytes, so that a header that states another length
 * changes nothing. Reads WAV, MP3, AAC (ADTS), FLAC and Ogg; containers with an index are read by
 * media-thread.ts. A hundred megabytes take less than half a second of CPU.
 */
import type { ByteWindow } from './byte-source.ts';
import { readTagBytes, walkRiff } from './media-chunks.ts';

/** Formats that this module measures, by the extension of their stored files. */
export type SoundFormat = 'wav' | 'mp3' | 'aac' | 'flac' | 'ogg';

/** Length of the sound in seconds, or a description of a file that cannot be measured. */
export type MeasuredSound = { seconds: number } | { found: string };

const meters: Record<SoundFormat, (file: ByteWindow, start: number) => Promise<MeasuredSound>> = {
  wav: measureWav,
  mp3: (file, start) => measureFrames(file, start, readMp3Frame),
  aac: (file, start) => measureFrames(file, start, readAdtsFrame),
  flac: measureFlac,
  ogg: measureOgg,
};

/** Measures the sound that starts at `start`, after tags. */
export const measureSound = (
  format: SoundFormat,
  file: ByteWindow,
  start: number,
): Promise<MeasuredSound> => meters[format](file, start);

// WAV ---------------------------------------------------------------------------------------------

/** Codes of WAV formats without compression: PCM, floating point, A-law, µ-law. */
const pcmFormats = new Set([1, 3, 6, 7]);
const wavFormatNames: Readonly<Record<number, string>> = {
  2: 'ADPCM',
  0x11: 'ADPCM',
  0x31: 'GSM',
  0x55: 'MP3',
  0xff: 'AAC',
};
const wavChunksMax = 20_000;
const wavFormatBytesMax = 40;

/** Returns the number of bytes of one second; or a description of a header that has none. */
function readWavRate(format: Buffer): number | string {
  if (format.length < 16) return 'a damaged WAV';
  const tag = format.readUInt16LE(0);
  const code = tag === 0xfffe && format.length >= 26 ? format.readUInt16LE(24) : tag;
  if (!pcmFormats.has(code)) {
    return `WAV with ${wavFormatNames[code] ?? `compressed (0x${code.toString(16)})`} sound`;
  }
  const [channels, rate] = [format.readUInt16LE(2), format.readUInt32LE(4)];
  const frameBytes = channels * Math.ceil(format.readUInt16LE(14) / 8);
  const isConsistent = rate > 0 && frameBytes > 0 && format.readUInt16LE(12) === frameBytes;
  return isConsistent ? rate * frameBytes : 'a WAV whose header contradicts itself';
}

/** Sums all `data` chunks: some decoders play them one after the other, some only the last. */
async function measureWav(file: ByteWindow, start: number): Promise<MeasuredSound> {
  let rate: number | null = null;
  let dataBytes = 0;
  for await (const { id, data, dataEnd } of walkRiff(file, { max: wavChunksMax, start })) {
    if (id === 'fmt ' && rate === null) {
      const found = readWavRate(await file.read(data, Math.min(dataEnd - data, wavFormatBytesMax)));
      if (typeof found === 'string') return { found };
      rate = found;
    }
    if (id === 'data') dataBytes += Math.min(dataEnd, file.sizeBytes) - data;
  }
  if (rate === null) return { found: 'a damaged WAV' };
  return { seconds: dataBytes / rate };
}

// MP3 and AAC -------------------------------------------------------------------------------------

/** Frame of MP3 or ADTS. `kind` is equal for all frames of a recording. */
interface SoundFrame {
  bytes: number;
  seconds: number;
  kind: number;
}

type ReadFrame = (head: Buffer) => SoundFrame | null;

const mp3Bitrates = [
  [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
] as const;
const mp3Rates = [44_100, 48_000, 32_000] as const;

/** Reads the header of a frame of MPEG audio, layer III. */
function readMp3Frame(head: Buffer): SoundFrame | null {
  if (head.length < 4 || head[0] !== 0xff) return null;
  const [, flags = 0, rates = 0] = head;
  const version = (flags >> 3) & 3;
  if ((flags & 0xe6) !== 0xe2 || version === 1) return null;
  const isFirst = version === 3;
  const kbps = mp3Bitrates[isFirst ? 0 : 1][(rates >> 4) - 1];
  const fullRate = mp3Rates[(rates >> 2) & 3];
  if (kbps === undefined || fullRate === undefined) return null;
  const rate = fullRate / (isFirst ? 1 : version === 2 ? 2 : 4);
  const samples = isFirst ? 1152 : 576;
  const bytes = Math.floor((samples * 125 * kbps) / rate) + ((rates >> 1) & 1);
  return { bytes, seconds: samples / rate, kind: version * 100_000 + rate };
}

const adtsRates = [
  96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8000,
  7350,
] as const;

/** Reads the header of an ADTS frame. */
function readAdtsFrame(head: Buffer): SoundFrame | null {
  if (head.length < 7 || head[0] !== 0xff || ((head[1] ?? 0) & 0xf6) !== 0xf0) return null;
  const [, , rates = 0, , , , blocks = 0] = head;
  const rate = adtsRates[(rates >> 2) & 15];
  const bytes = (head.readUInt32BE(2) >> 5) & 0x1fff;
  if (rate === undefined || bytes < 7) return null;
  return { bytes, seconds: (1024 * ((blocks & 3) + 1)) / rate, kind: rate };
}

/** Maximum number of bytes without a frame that are searched for the next one. */
const garbageBytesMax = 1024 * 1024;
/** Maximum number of positions in a file at which a frame is searched in vain. */
const attemptsMax = 20_000;
/** Number of frames in a row that identify a recording that does not start with one. */
const framesInRow = 3;

/** Search for frames: `kind` is null before the first frame. */
interface FrameSearch {
  read: ReadFrame;
  kind: number | null;
  /** Number of positions that may still be tried, in the whole file. */
  attempts: number;
}

/** Finds the next position from which several frames of one kind follow each other. */
async function findFrames(
  file: ByteWindow,
  start: number,
  search: FrameSearch,
): Promise<number | null> {
  const end = Math.min(start + garbageBytesMax, file.sizeBytes);
  for (let position = start; position < end && search.attempts > 0; position += 1) {
    const ahead = file.peek(position, 4096) ?? (await file.read(position, 4096));
    const skipped = ahead.indexOf(0xff);
    position += skipped === -1 ? Math.max(0, ahead.length - 1) : skipped;
    if (skipped === -1) continue;
    search.attempts -= 1;
    let [next, count] = [position, 0];
    let { kind } = search;
    while (count < framesInRow && next < file.sizeBytes) {
      const frame = search.read(file.peek(next, 8) ?? (await file.read(next, 8)));
      if (!frame || (kind !== null && frame.kind !== kind)) break;
      kind = frame.kind;
      next += frame.bytes;
      count += 1;
    }
    // At the end of a file, fewer frames than that may be left.
    const isEnd = next >= file.sizeBytes && (count > 1 || position === start);
    if (count === framesInRow || (count > 0 && isEnd)) return position;
  }
  return null;
}

/** Sums the frames of MP3 or AAC, and skips tags and garbage between them. */
async function measureFrames(
  file: ByteWindow,
  start: number,
  read: ReadFrame,
): Promise<MeasuredSound> {
  const search: FrameSearch = { read, kind: null, attempts: attemptsMax };
  let [seconds, position] = [0, start];
  while (position < file.sizeBytes) {
    const head = file.peek(position, 10) ?? (await file.read(position, 10));
    const frame = search.kind === null ? null : read(head);
    if (frame && frame.kind === search.kind) {
      position += frame.bytes;
      seconds += frame.seconds;
      continue;
    }
    const tagBytes = readTagBytes(head);
    if (tagBytes > 0 && search.attempts > 0) {
      search.attempts -= 1;
      position += tagBytes;
      continue;
    }
    const next = await findFrames(file, position, search);
    const first = next === null ? null : read(await file.read(next, 8));
    if (next === null || !first) break;
    position = next;
    if (search.kind !== null) continue;
    search.kind = first.kind;
    // The first frame of an encoder may only describe the others.
    const content = (await file.read(position, 64)).toString('latin1');
    if (/Xing|Info|VBRI/.test(content)) position += first.bytes;
  }
  return seconds > 0 ? { seconds } : { found: 'a damaged sound file' };
}

// FLAC --------------------------------------------------------------------------------------------

/** Number of bytes at the end of a file that contain its last frame. */
const flacTailBytes = 256 * 1024;

function crc8(bytes: Buffer): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x80 ? ((crc << 1) ^ 7) & 255 : crc << 1;
  }
  return crc;
}

/** Reads the header of a FLAC frame: the samples before it and in it; null if it is none. */
function readFlacFrame(head: Buffer, blockSamples: number): { from: number; to: number } | null {
  if (head.length < 16 || head[0] !== 0xff || ((head[1] ?? 0) & 0xfe) !== 0xf8) return null;
  const [, flags = 0, sizes = 0, channels = 0, lead = 0] = head;
  const sizeCode = sizes >> 4;
  if (sizeCode === 0 || (sizes & 15) === 15 || channels >> 4 > 10 || channels & 1) return null;
  const extra = lead < 0x80 ? 0 : Math.clz32(~(lead << 24)) - 1;
  if (lead >= 0x80 && (extra < 1 || extra > 6)) return null;
  let number = extra === 0 ? lead : lead & (0x3f >> extra);
  for (const byte of head.subarray(5, 5 + extra)) {
    if ((byte & 0xc0) !== 0x80) return null;
    number = number * 64 + (byte & 63);
  }
  let at = 5 + extra;
  const sizeBytes = sizeCode === 6 ? 1 : sizeCode === 7 ? 2 : 0;
  const samples =
    sizeBytes > 0
      ? head.readUIntBE(at, sizeBytes) + 1
      : sizeCode === 1
        ? 192
        : sizeCode < 6
          ? 576 * 2 ** (sizeCode - 2)
          : 256 * 2 ** (sizeCode - 8);
  at += sizeBytes;
  const rateCode = sizes & 15;
  at += rateCode === 12 ? 1 : rateCode >= 13 ? 2 : 0;
  if (crc8(head.subarray(0, at)) !== head[at]) return null;
  const from = flags & 1 ? number : number * blockSamples;
  return { from, to: from + samples };
}

/** Measures FLAC by the numbers of its first and last frames. */
async function measureFlac(file: ByteWindow, start: number): Promise<MeasuredSound> {
  const info = await file.read(start, 42);
  const rate = info.length < 42 ? 0 : info.readUIntBE(18, 3) >> 4;
  if (rate === 0) return { found: 'a damaged FLAC' };
  const blockSamples = info.readUInt16BE(10);
  let position = start + 4;
  for (let isLast = false, blocks = 0; !isLast && blocks < 1000; blocks += 1) {
    const head = await file.read(position, 4);
    if (head.length < 4) return { found: 'a damaged FLAC' };
    isLast = head.readUInt8(0) >= 0x80;
    position += 4 + head.readUIntBE(1, 3);
  }
  const first = readFlacFrame(await file.read(position, 16), blockSamples);
  const tailStart = Math.max(position, file.sizeBytes - flacTailBytes);
  const tail = Buffer.concat([await file.read(tailStart, flacTailBytes), Buffer.alloc(16)]);
  for (
    let at = tail.lastIndexOf(0xff);
    at >= 0;
    at = at === 0 ? -1 : tail.lastIndexOf(0xff, at - 1)
  ) {
    const last = readFlacFrame(tail.subarray(at, at + 16), blockSamples);
    if (last) return { seconds: Math.max(0, last.to - (first?.from ?? 0)) / rate };
  }
  return { found: 'a FLAC without sound' };
}

// Ogg ---------------------------------------------------------------------------------------------

/** Returns the seconds of an Opus packet, from its first bytes (RFC 6716, section 3.1). */
export function readOpusSeconds(packet: Uint8Array): number {
  const [toc = 0, count = 0] = packet;
  const config = toc >> 3;
  const sizes = config < 12 ? [10, 20, 40, 60] : config < 16 ? [10, 20, 10, 20] : [2.5, 5, 10, 20];
  const frames = [1, 2, 2, count & 63][toc & 3] ?? 1;
  return (frames * (sizes[config & 3] ?? 0)) / 1000;
}

/** Stream of an Ogg file. `granules` are samples; Opus is counted by its packets instead. */
interface OggStream {
  codec: 'opus' | 'vorbis' | 'flac' | 'speex' | 'other';
  rate: number;
  seconds: number;
  first: number | null;
  last: number;
  /** Whether the next segment continues a packet. */
  continues: boolean;
}

/** Reads the first packet of an Ogg stream. */
function openOggStream(packet: Buffer): OggStream {
  const text = packet.toString('latin1', 0, 8);
  const stream = {
    codec: 'other',
    rate: 0,
    seconds: 0,
    first: null,
    last: 0,
    continues: false,
  } as const;
  if (text === 'OpusHead' && packet.length >= 12) {
    return { ...stream, codec: 'opus', rate: 48_000, seconds: -packet.readUInt16LE(10) / 48_000 };
  }
  if (text.startsWith('\x01vorbis') && packet.length >= 16) {
    return { ...stream, codec: 'vorbis', rate: packet.readUInt32LE(12) };
  }
  if (text.startsWith('\x7fFLAC') && packet.length >= 30) {
    return { ...stream, codec: 'flac', rate: packet.readUIntBE(27, 3) >> 4 };
  }
  if (text === 'Speex   ' && packet.length >= 40) {
    return { ...stream, codec: 'speex', rate: packet.readUInt32LE(36) };
  }
  return { ...stream };
}

/** Adds the packets of a page of Opus to its stream. */
function countOpusPage(stream: OggStream, segments: Buffer, body: Buffer): void {
  let at = 0;
  for (const length of segments) {
    const isTag = body.toString('latin1', at, at + 8) === 'OpusTags';
    if (!stream.continues && length > 0 && !isTag) {
      stream.seconds += readOpusSeconds(body.subarray(at, at + 2));
    }
    stream.continues = length === 255;
    at += length;
  }
}

/** Returns the seconds of the longest stream of a chain link. */
const longestStream = (streams: ReadonlyMap<number, OggStream>): number =>
  Math.max(
    0,
    ...[...streams.values()].map(({ codec, rate, seconds, first, last }) =>
      codec === 'opus' ? seconds : rate > 0 ? (last - (first ?? 0)) / rate : 0,
    ),
  );

/**
 * Longest sound of one packet of a codec without packet lengths, in seconds. A first page that ends
 * later than its packets can last belongs to a recording that does not start at 0.
 */
const packetSecondsMax = 0.2;
/** Maximum number of simultaneous streams. */
const oggStreamsMax = 16;
/** Maximum number of pages without sound: empty ones, headers, and gaps. */
const oggWastedPagesMax = 5000;
/** First bytes of a page, `OggS`. */
const oggCapture = 0x4f676753;

/** Sums the links of an Ogg file: files that were joined are played one after the other. */
async function measureOgg(file: ByteWindow, start: number): Promise<MeasuredSound> {
  let streams = new Map<number, OggStream>();
  let [seconds, position] = [0, start];
  let hasData = false;
  let wastedPages = 0;
  while (position + 27 < file.sizeBytes && wastedPages < oggWastedPagesMax) {
    const head = file.peek(position, 282) ?? (await file.read(position, 282));
    // The version of a page is 0; other bytes after the capture pattern are no page.
    if (head.length < 27 || head.readUInt32BE(0) !== oggCapture || head[4] !== 0) {
      const ahead = await file.read(position + 1, garbageBytesMax);
      const next = ahead.indexOf('OggS');
      if (next === -1) break;
      wastedPages += 1;
      position += 1 + next;
      continue;
    }
    const segments = head.subarray(27, 27 + head.readUInt8(26));
    let bodyBytes = 0;
    for (const length of segments) bodyBytes += length;
    const serial = head.readUInt32LE(14);
    const isFirstPage = (head.readUInt8(5) & 2) !== 0;
    const bodyStart = position + 27 + segments.length;
    const body = file.peek(bodyStart, bodyBytes) ?? (await file.read(bodyStart, bodyBytes));
    position = bodyStart + bodyBytes;
    // The last page of a file that is cut off is not played.
    if (body.length < bodyBytes) break;
    if (isFirstPage || bodyBytes === 0) wastedPages += 1;
    if (isFirstPage) {
      if (hasData) {
        seconds += longestStream(streams);
        streams = new Map();
        hasData = false;
      }
      if (body.toString('latin1', 0, 7) === '\x80theora') return { found: 'an Ogg video' };
      if (streams.size < oggStreamsMax) streams.set(serial, openOggStream(body));
      continue;
    }
    hasData = true;
    const stream = streams.get(serial);
    if (stream?.codec === 'opus') countOpusPage(stream, segments, body);
    else if (stream) addGranule(stream, Number(head.readBigInt64LE(6)), segments.length);
  }
  seconds += longestStream(streams);
  return seconds > 0 ? { seconds } : { found: 'an Ogg file without sound' };
}

/** Records the last sample of a page. */
function addGranule(stream: OggStream, granule: number, packets: number): void {
  // Headers have 0, and a page on which no packet ends has -1.
  if (granule <= 0) return;
  const isLate = granule > packets * packetSecondsMax * stream.rate;
  stream.first ??= isLate ? granule : 0;
  stream.last = granule;
}
