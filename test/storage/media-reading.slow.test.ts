/**
 * Recognizing and measuring files: every format that is accepted, files whose headers state another
 * length than their contents, and the words with which others are refused.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { deflateSync } from 'node:zlib';
import {
  ALL_FORMATS,
  BufferSource,
  BufferTarget,
  EncodedAudioPacketSource,
  EncodedPacketSink,
  Input,
  MkvOutputFormat,
  Mp4OutputFormat,
  Output,
  type OutputFormat,
} from 'mediabunny';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import type { ByteSource } from '../../storage/byte-source.ts';
import { readMedia } from '../../storage/media-reader.ts';
import { readAccepted, type MediaUse } from '../../storage/media-types.ts';
import { makeSpeech } from '../harness/media.ts';

const readStored = (name: string): Promise<Buffer> =>
  readFile(join(import.meta.dirname, 'media', name));
const toSource = (bytes: Buffer): ByteSource => ({
  size: () => Promise.resolve(bytes.length),
  read: (start, end) => Promise.resolve(new Uint8Array(bytes.subarray(start, end))),
  close: () => Promise.resolve(),
});
const measure = (bytes: Buffer) => readMedia(toSource(bytes));
const use = (bytes: Buffer, as?: MediaUse) => readAccepted(toSource(bytes), as);

/**
 * Returns the CPU time of a measurement in milliseconds. Repeats a slow one up to four times, because programs on the
 * same core make each other slower. Other threads do not count.
 */
async function measureCpuMs(bytes: Buffer, slowMs: number): Promise<number> {
  let leastMs = Infinity;
  for (let run = 0; run < 5 && leastMs > slowMs; run += 1) {
    const before = process.threadCpuUsage();
    await measure(bytes);
    const { user, system } = process.threadCpuUsage(before);
    leastMs = Math.min(leastMs, (user + system) / 1000);
  }
  return leastMs;
}

/** Overwrites each occurrence of some bytes. */
function patch(bytes: Buffer, from: string, to: string): Buffer {
  return Buffer.from(bytes.toString('hex').replaceAll(from, to), 'hex');
}
const box = (name: string, content: Buffer): Buffer => {
  const head = Buffer.from(`\0\0\0\0${name}`, 'latin1');
  head.writeUInt32BE(8 + content.length);
  return Buffer.concat([head, content]);
};
const brands = (...names: string[]): Buffer =>
  box('ftyp', Buffer.from(`${names[0]}\0\0\0\0${names.join('')}`, 'latin1'));
/** Returns a WAV of 8-bit sound at 1 kHz, whose `data` chunk states another length. */
function wav(seconds: number, { stated = seconds * 1000, tag = 1, before = Buffer.alloc(0) } = {}) {
  const format = Buffer.alloc(24);
  format.write('fmt \x10\0\0\0', 'latin1');
  for (const [at, value] of [tag, 1, 1000, 0, 1000, 0, 1, 8].entries()) {
    format.writeUInt16LE(value, 8 + at * 2);
  }
  const data = Buffer.from('data\0\0\0\0', 'latin1');
  data.writeUInt32LE(stated, 4);
  return Buffer.concat([
    Buffer.from('RIFF\xff\xff\xff\xffWAVE', 'latin1'),
    before,
    format,
    data,
    Buffer.alloc(seconds * 1000),
  ]);
}

/** Recordings, with their type and their length in seconds. */
const recordings: [string, () => Promise<Buffer>, string, number][] = [
  ['MP3', () => readStored('a.mp3'), 'mp3', 3],
  [
    'MP3 that starts within a frame',
    async () => (await readStored('a.mp3')).subarray(300),
    'mp3',
    3,
  ],
  [
    'MP3 after 3 MB of tags',
    async () =>
      Buffer.concat([
        Buffer.from('ID3\x04\0\0\x01\x40\0\0', 'latin1'),
        Buffer.alloc(3 * 1024 * 1024),
        await readStored('a.mp3'),
      ]),
    'mp3',
    3,
  ],
  [
    'MP3 joined',
    async () => Buffer.concat([await readStored('a.mp3'), await readStored('a.mp3')]),
    'mp3',
    6,
  ],
  ['AAC', () => readStored('a.aac'), 'aac', 3],
  ['M4A', () => readStored('a.m4a'), 'm4a', 3],
  [
    'M4A with 5 MB of metadata',
    async () => Buffer.concat([await readStored('a.m4a'), box('free', Buffer.alloc(5e6))]),
    'm4a',
    3,
  ],
  ['Ogg Vorbis', () => readStored('a.ogg'), 'ogg', 3],
  ['Ogg Opus, joined', () => readStored('chained.ogg'), 'ogg', 15],
  ['Ogg cut off', async () => (await readStored('chained.ogg')).subarray(0, 2000), 'ogg', 2],
  ['Ogg FLAC', () => readStored('f.oga'), 'ogg', 1],
  ['Ogg Speex', () => readStored('s.spx'), 'ogg', 3],
  ['Matroska sound', () => readStored('a.mka'), 'mka', 3],
  ['WebM of a browser', () => readStored('recording.webm'), 'weba', 1],
  ['WebM that starts after an hour', () => readStored('late.webm'), 'weba', 2],
  ['film of 2 seconds with 8 seconds of sound', () => readStored('wide.mp4'), 'mp4', 8],
  ['WAV', () => Promise.resolve(wav(10)), 'wav', 10],
  ['WAV as RF64', () => Promise.resolve(Buffer.from(wav(10).fill('RF64', 0, 4))), 'wav', 10],
  ['WAV of a pipe', () => Promise.resolve(wav(10, { stated: 0xffffffff })), 'wav', 10],
  [
    'WAV that states 100 times its length',
    () => Promise.resolve(wav(10, { stated: 1e6 })),
    'wav',
    10,
  ],
  ['WAV with two data chunks', () => readStored('two-data.wav'), 'wav', 10],
  [
    'M4A with two tracks of 1 and 3 seconds',
    () => joinTracks(new Mp4OutputFormat(), 1, 3),
    'm4a',
    3,
  ],
  [
    'M4A with two tracks of 3 and 1 seconds',
    () => joinTracks(new Mp4OutputFormat(), 3, 1),
    'm4a',
    3,
  ],
  ['Matroska with three tracks', () => joinTracks(new MkvOutputFormat(), 1, 3, 2), 'mka', 3],
];

/** Returns a file with tracks of the same sound, each of another length in seconds. */
async function joinTracks(format: OutputFormat, ...lengths: number[]): Promise<Buffer> {
  const input = new Input({
    source: new BufferSource(await readStored('a.m4a')),
    formats: ALL_FORMATS,
  });
  const track = await input.getPrimaryAudioTrack();
  if (!track) throw new Error('there is no sound');
  const target = new BufferTarget();
  const output = new Output({ format, target });
  const sources = lengths.map(() => new EncodedAudioPacketSource('aac'));
  for (const source of sources) output.addAudioTrack(source);
  await output.start();
  const decoderConfig = (await track.getDecoderConfig()) ?? undefined;
  for await (const packet of new EncodedPacketSink(track).packets()) {
    for (const [index, source] of sources.entries()) {
      if (packet.timestamp < (lengths[index] ?? 0)) {
        await source.add(packet, decoderConfig && { decoderConfig });
      }
    }
  }
  await output.finalize();
  return Buffer.from(target.buffer ?? new ArrayBuffer(0));
}

describe('a recording', () => {
  it.each(recordings)('is measured: %s', async (_name, load, extension, seconds) => {
    const facts = await use(await load(), 'recording');
    expect(facts).toMatchObject({ kind: 'recording', type: { extension } });
    const audio = facts.kind === 'recording' ? facts.audio : null;
    expect(Math.abs((audio?.durationSeconds ?? 0) - seconds)).toBeLessThan(0.35);
  });

  it('of a hundred megabytes takes less than half a second of CPU', async () => {
    const bytes = Buffer.concat(Array<Buffer>(400).fill(await makeSpeech(20)));
    expect(await measure(bytes)).toMatchObject({ kind: 'recording', type: { extension: 'mp3' } });
    expect(await measureCpuMs(bytes, 500)).toBeLessThanOrEqual(500);
  });

  it.each<[string, () => Promise<Buffer>, RegExp]>([
    // The time of a tick is a tenth of what the sound needs.
    [
      'WebM with a slow clock',
      async () => patch(await readStored('recording.webm'), '2ad7b1830f4240', '2ad7b183002710'),
      /timestamps are too short for its sound/,
    ],
    [
      'MP4 with a false sample table',
      async () => {
        const bytes = await readStored('a.m4a');
        const at = bytes.indexOf('stts');
        bytes.writeUInt32BE(10, at + 16);
        return bytes;
      },
      /timestamps are too short for its sound/,
    ],
    [
      'MP4 with more sound than its length can need',
      async () => Buffer.concat([await readStored('a.m4a'), box('mdat', Buffer.alloc(2e7))]),
      /timestamps are too short for its size \(3\.\d seconds for at least /,
    ],
    [
      'Matroska with more sound than its length can need',
      async () => Buffer.concat([await readStored('a.mka'), Buffer.alloc(2e7)]),
      /timestamps are too short for its size/,
    ],
    [
      'WAV with ADPCM',
      () => Promise.resolve(wav(1, { tag: 2 })),
      /^is WAV with ADPCM sound; accepted/,
    ],
    ['WAV without sound', () => Promise.resolve(wav(0)), /WAV/],
    ['AIFF', () => readStored('fine.aiff'), /^is AIFF; accepted are MP3, WAV, M4A, AAC, FLAC, Ogg/],
    ['AU', () => Promise.resolve(Buffer.from('.snd\0\0\0\x20')), /^is AU; /],
    ['film without sound', () => readStored('late-film.webm'), /^is WebM without sound/],
    [
      'cut-off MP4',
      async () => (await readStored('a.m4a')).subarray(0, 3000),
      /damaged or cut-off M4A/,
    ],
    ['picture', () => readStored('sideways.jpg'), /^is JPEG; /],
    ['text', () => Promise.resolve(Buffer.alloc(5000, 'text')), /^is of an unknown format; /],
    ['nothing', () => Promise.resolve(Buffer.alloc(0)), /^is empty; /],
  ])('is refused by name: %s', async (_name, load, message) => {
    await expect(use(await load(), 'recording')).rejects.toThrow(message);
  });
});

describe('a film', () => {
  it('has the length of its picture track, and its stored pixels', async () => {
    // The pixels of this film are not square: it is shown wider than it is stored.
    expect(await use(await readStored('wide.mp4'), 'film')).toMatchObject({
      video: { width: 72, height: 56, durationSeconds: 2 },
    });
    expect(await use(await readStored('late-film.webm'), 'film')).toMatchObject({
      video: { durationSeconds: 2 },
    });
  });

  it.each<[string, () => Promise<Buffer>, string]>([
    ['Matroska', () => readStored('a.mkv'), 'is Matroska; accepted are MP4, WebM and QuickTime'],
    ['sound', () => readStored('a.m4a'), 'is M4A; accepted are MP4, WebM and QuickTime'],
  ])('is refused by name: %s', async (_name, load, message) => {
    await expect(use(await load(), 'film')).rejects.toThrow(message);
  });
});

const plain = () => sharp({ create: { width: 40, height: 30, channels: 3, background: '#36c' } });

describe('a picture', () => {
  it.each(['png', 'jpeg', 'webp'] as const)('is measured upright: %s', async (format) => {
    for (const orientation of [1, 2, 3, 4, 5, 6, 7, 8]) {
      const bytes = await plain().withMetadata({ orientation }).toFormat(format).toBuffer();
      const { autoOrient } = await sharp(bytes).metadata();
      expect(await use(bytes, 'picture'), `${orientation}`).toMatchObject(autoOrient);
    }
  });

  it('is measured after megabytes of metadata', async () => {
    const bytes = await plain().jpeg().toBuffer();
    const segment = Buffer.concat([Buffer.from('ffe2ffff', 'hex'), Buffer.alloc(0xfffd)]);
    const long = [bytes.subarray(0, 2), ...Array<Buffer>(60).fill(segment), bytes.subarray(2)];
    expect(await use(Buffer.concat(long), 'picture')).toMatchObject({ width: 40, height: 30 });
  });

  it.each(['gif', 'webp', 'png', 'jpeg'] as const)(
    'with one frame is accepted: %s',
    async (format) => {
      const bytes = await plain().toFormat(format).toBuffer();
      expect(await use(bytes, 'picture')).toMatchObject({ isAnimated: false, width: 40 });
    },
  );

  it.each<[string, () => Promise<Buffer>, string]>([
    [
      '81 megapixels',
      () => readStored('81mp.png'),
      'has 81000000 pixels (9000×9000); at most 64000000 are allowed',
    ],
    [
      'animated GIF',
      () => readStored('anim.gif'),
      'is an animated GIF; accepted are pictures with one frame',
    ],
    [
      'animated WebP',
      () => readStored('anim.webp'),
      'is an animated WebP; accepted are pictures with one frame',
    ],
    [
      'APNG',
      async () => {
        const bytes = await plain().png().toBuffer();
        const frames = Buffer.from('\0\0\0\x08acTL\0\0\0\x02\0\0\0\0\0\0\0\0', 'latin1');
        return Buffer.concat([bytes.subarray(0, 33), frames, bytes.subarray(33)]);
      },
      'is an animated PNG; accepted are pictures with one frame',
    ],
    [
      'HEIC without a description',
      async () => brands('mif1', 'heic'),
      'is a damaged or cut-off HEIC',
    ],
    [
      'AVIF without a description',
      async () => brands('miaf', 'avif'),
      'is a damaged or cut-off AVIF',
    ],
    [
      'TIFF',
      async () => Buffer.from('II*\0\x08\0\0\0\0\0'),
      'is TIFF; accepted are PNG, JPEG, WebP, GIF, HEIC and AVIF',
    ],
    [
      'BMP',
      async () => Buffer.from('BM' + '\0'.repeat(60)),
      'is BMP; accepted are PNG, JPEG, WebP, GIF, HEIC and AVIF',
    ],
    [
      'SVG',
      async () => Buffer.from('<svg xmlns="x"/>'),
      'is HTML, SVG or XML; accepted are PNG, JPEG, WebP, GIF, HEIC and AVIF',
    ],
    ...(
      [
        ['OpenEXR', 'v/1\x01'],
        ['DPX', 'SDPX'],
        ['PNM', 'P6\n8 8'],
        ['SGI', '\x01\xda\x01\x01'],
        ['PCX', '\x0a\x05\x01\x08'],
        ['TTA', 'TTA1'],
      ] as const
    ).map(([name, start]): [string, () => Promise<Buffer>, string] => [
      name,
      async () => Buffer.from(start.padEnd(100, '\0'), 'latin1'),
      `is ${name}; accepted are PNG, JPEG, WebP, GIF, HEIC and AVIF`,
    ]),
    [
      'PDF',
      async () => Buffer.from('%PDF-1.7\n'),
      'is PDF; accepted are PNG, JPEG, WebP, GIF, HEIC and AVIF',
    ],
    [
      'sound',
      () => readStored('a.mp3'),
      'is MP3; accepted are PNG, JPEG, WebP, GIF, HEIC and AVIF',
    ],
    [
      'cut-off PNG',
      async () => (await readStored('81mp.png')).subarray(0, 20),
      'is a damaged or cut-off PNG; accepted are PNG, JPEG, WebP, GIF, HEIC and AVIF',
    ],
  ])('is refused by name: %s', async (_name, load, message) => {
    await expect(use(await load(), 'picture')).rejects.toThrow(message);
  });
});

// Bombs -------------------------------------------------------------------------------------------

const le32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const be32 = (value: number): Buffer => le32(value).swap32();
const pngHeader = Buffer.from(
  '89504e470d0a1a0a0000000d4948445200000008000000080802000000c0ffee00',
  'hex',
);
const chunk = (name: string, data: Buffer): Buffer =>
  Buffer.concat([be32(data.length), Buffer.from(name), data, Buffer.alloc(4)]);
const riff = (name: string, data: Buffer): Buffer =>
  Buffer.concat([Buffer.from(name), le32(data.length), data]);
/** Returns an EXIF directory whose entries all refer to the directory itself. */
function loopingExif(entries: number): Buffer {
  const entry = Buffer.from('69870400010000000800000000', 'hex').subarray(0, 12);
  const count = Buffer.alloc(2);
  count.writeUInt16LE(entries);
  return Buffer.concat([
    Buffer.from('II*\0\x08\0\0\0', 'latin1'),
    count,
    ...Array<Buffer>(entries).fill(entry),
  ]);
}
const nested = (name: string, depth: number): Buffer => {
  const bytes = Buffer.alloc(depth * 8);
  for (let level = 0; level < depth; level += 1) {
    bytes.writeUInt32BE((depth - level) * 8, level * 8);
    bytes.write(name, level * 8 + 4);
  }
  return bytes;
};
const webp = (flags: number, chunks: Buffer): Buffer => {
  const extended = riff('VP8X', Buffer.from([flags, 0, 0, 0, 7, 0, 0, 7, 0, 0]));
  return riff('RIFF', Buffer.concat([Buffer.from('WEBP'), extended, chunks]));
};
const ebml = Buffer.from(
  '1a45dfa39f4286810142f7810142f2810442f381084282847765626d42878104428581021853806701ffffffffffffff',
  'hex',
);
const frames = (count: number, frame: Buffer): Buffer =>
  Buffer.concat(Array<Buffer>(count).fill(frame));

const bombs: [string, () => Buffer][] = [
  [
    'PNG with a looping EXIF directory',
    () =>
      Buffer.concat([pngHeader, chunk('eXIf', loopingExif(5000)), chunk('IDAT', Buffer.alloc(9))]),
  ],
  [
    'JPEG with a looping EXIF directory',
    () => {
      const exif = Buffer.concat([Buffer.from('Exif\0\0'), loopingExif(5000)]);
      const size = Buffer.from([0xff, 0xe1, (exif.length + 2) >> 8, (exif.length + 2) & 255]);
      return Buffer.concat([
        Buffer.from('ffd8', 'hex'),
        size,
        exif,
        Buffer.from('ffc00011080008000803012200021101031101', 'hex'),
      ]);
    },
  ],
  [
    'PNG with 100,000 chunks',
    () => Buffer.concat([pngHeader, frames(100_000, chunk('tEXt', Buffer.from('a\0b')))]),
  ],
  [
    'PNG whose profile unpacks to 100 MB',
    () =>
      Buffer.concat([
        pngHeader,
        chunk(
          'iCCP',
          Buffer.concat([Buffer.from('a\0\0'), deflateSync(Buffer.alloc(1e8), { level: 1 })]),
        ),
        chunk('IDAT', Buffer.alloc(9)),
      ]),
  ],
  [
    'PNG whose chunk states 2 GB',
    () => Buffer.concat([pngHeader, be32(0x7fffffff), Buffer.from('eXIf')]),
  ],
  [
    'JPEG of ten million empty segments',
    () =>
      Buffer.concat([
        Buffer.from('ffd8', 'hex'),
        Buffer.alloc(1e7, Buffer.from('ffe20002', 'hex')),
      ]),
  ],
  ['JPEG of fill bytes', () => Buffer.alloc(1e7, 0xff).fill(Buffer.from('ffd8ff', 'hex'), 0, 3)],
  ['WebP of 20,000 frames', () => webp(2, frames(20_000, riff('ANMF', Buffer.alloc(40))))],
  ['WebP of 500,000 empty chunks', () => webp(8, frames(500_000, riff('JUNK', Buffer.alloc(0))))],
  [
    'GIF of 45,000 frames',
    () =>
      Buffer.concat([
        Buffer.from('GIF89a\x08\0\x08\0\0\0\0', 'latin1'),
        frames(45_000, Buffer.from('2c0000000008000800000200', 'hex')),
      ]),
  ],
  [
    'GIF of 25 MB in blocks of one byte',
    () =>
      Buffer.concat([
        Buffer.from('GIF89a\x08\0\x08\0\0\0\0,\0\0\0\0\x08\0\x08\0\0\x02', 'latin1'),
        Buffer.alloc(25e6, Buffer.from([1, 1])),
      ]),
  ],
  ['MP4 of boxes in boxes', () => Buffer.concat([brands('isom'), nested('moov', 100_000)])],
  [
    'MP4 of tracks in tracks',
    () => Buffer.concat([brands('isom'), box('moov', nested('trak', 100_000))]),
  ],
  [
    'MP4 whose box states 16 exabytes',
    () => Buffer.concat([brands('isom'), be32(1), Buffer.from('moov'), Buffer.alloc(8, 0xff)]),
  ],
  [
    'MP4 of 50,000 empty boxes',
    () => Buffer.concat([brands('isom'), frames(50_000, box('free', Buffer.alloc(0)))]),
  ],
  [
    'Matroska of unknown sizes',
    () => Buffer.concat([ebml, frames(100_000, Buffer.from('1f43b67501ffffffffffffff', 'hex'))]),
  ],
  [
    'Matroska of 50,000 empty elements',
    () => Buffer.concat([ebml, frames(50_000, Buffer.from('ec80', 'hex'))]),
  ],
  ['MP3 of headers that lead nowhere', () => Buffer.alloc(1e7, Buffer.from('fffb9064fffb', 'hex'))],
  ['MP3 of ones', () => Buffer.concat([Buffer.from('fffb9064', 'hex'), Buffer.alloc(1e7, 0xff)])],
  [
    'Ogg of 100,000 empty pages',
    () => frames(100_000, Buffer.concat([Buffer.from('OggS\0\0', 'latin1'), Buffer.alloc(21)])),
  ],
  [
    'Ogg of 100,000 streams',
    () => frames(100_000, Buffer.concat([Buffer.from('OggS\0\x02', 'latin1'), Buffer.alloc(21)])),
  ],
  [
    'WAV of 500,000 chunks',
    () =>
      Buffer.concat([
        Buffer.from('RIFF\0\0\0\0WAVE'),
        frames(500_000, riff('LIST', Buffer.alloc(0))),
      ]),
  ],
  [
    'FLAC of 500,000 blocks',
    () => Buffer.concat([Buffer.from('fLaC'), Buffer.alloc(38, 1), Buffer.alloc(2e6)]),
  ],
  ['tags in tags', () => Buffer.alloc(1e7, Buffer.from('ID3\x04\0\0\0\0\0\0', 'latin1'))],
];

describe('a malicious file', () => {
  it.each(bombs)('takes at most 50 ms of CPU: %s', async (_name, make) => {
    expect(await measureCpuMs(make(), 50)).toBeLessThanOrEqual(50);
  });
});
