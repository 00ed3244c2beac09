/**
 * Kinds of files that people send, each through every door: an upload, a URL, a data URL, a form, an
 * item of a bulk job and a step of a pipeline. All doors take a kind at the same price, or refuse it
 * with the same message. Requests are estimates, and a form lacks a field, so that no job starts.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import sharp, { type Sharp } from 'sharp';
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { makeHeif } from '../harness/heif.ts';
import { makeFilm } from '../harness/media.ts';
import { makeForm, putFile, signUpload } from '../harness/uploads.ts';

const gateway = useGateway({ media: 'full', settled: 'last' });

/** Name of a kind, its bytes, and how a refusal begins; kinds without one are taken. */
type Kind = [name: string, make: () => Buffer | Promise<Buffer>, refusal?: string];

const stored = (name: string) => (): Promise<Buffer> =>
  readFile(join(import.meta.dirname, 'media', name));
const latin = (text: string): Buffer => Buffer.from(text, 'latin1');
/** Bytes with which a file of a format starts, and zeros. */
const start = (text: string) => (): Buffer => Buffer.concat([latin(text), Buffer.alloc(600)]);
const cut = (make: () => Promise<Buffer>, share: number) => async (): Promise<Buffer> => {
  const bytes = await make();
  return bytes.subarray(0, Math.floor(bytes.length * share));
};

const plain = (): Sharp =>
  sharp({ create: { width: 60, height: 40, channels: 3, background: '#c63' } });
const clear = (): Sharp =>
  sharp({ create: { width: 60, height: 40, channels: 4, background: '#c638' } });
const draw =
  (encode: (picture: Sharp) => Sharp, from = plain) =>
  (): Promise<Buffer> =>
    encode(from()).toBuffer();
/** Orientations of photos that were held otherwise; media-reading.slow.test.ts measures all eight. */
const orientations = [3, 6, 8];

const pictures: Kind[] = [
  ...(['jpeg', 'png', 'webp'] as const).flatMap((format) =>
    orientations.map((orientation): Kind => [
      `${format} with orientation ${orientation}`,
      draw((picture) => picture.withMetadata({ orientation }).toFormat(format)),
    ]),
  ),
  ['gray PNG', draw((picture) => picture.greyscale().png())],
  ['PNG with a palette', draw((picture) => picture.png({ palette: true }))],
  ['PNG of two colors', draw((picture) => picture.png({ palette: true, colours: 2 }))],
  ['PNG of 16 bits', draw((picture) => picture.toColourspace('rgb16').png())],
  ['interlaced PNG', draw((picture) => picture.png({ progressive: true }))],
  ['transparent PNG', draw((picture) => picture.png(), clear)],
  ['gray and transparent PNG', draw((picture) => picture.greyscale().png(), clear)],
  ['transparent PNG with a palette', draw((picture) => picture.png({ palette: true }), clear)],
  ['gray JPEG', draw((picture) => picture.greyscale().jpeg())],
  ['progressive JPEG', draw((picture) => picture.jpeg({ progressive: true }))],
  ['CMYK JPEG', draw((picture) => picture.toColourspace('cmyk').jpeg())],
  ['JPEG without subsampling', draw((picture) => picture.jpeg({ chromaSubsampling: '4:4:4' }))],
  ['JPEG with Display P3', draw((picture) => picture.withIccProfile('p3').jpeg())],
  ['lossless WebP', draw((picture) => picture.webp({ lossless: true }))],
  ['transparent WebP', draw((picture) => picture.webp(), clear)],
  ['GIF', draw((picture) => picture.gif())],
  ['transparent GIF', draw((picture) => picture.gif(), clear)],
  [
    'turned HEIC of tiles',
    async () =>
      makeHeif({ from: await stored('patches.heic')(), tile: [128, 128], grid: [2, 1], turns: 1 }),
  ],
  ['AVIF', draw((picture) => picture.avif({ effort: 0 }))],
  ['TIFF', start('II*\0\x08\0\0\0'), 'is TIFF; '],
  ['TIFF of a Mac', start('MM\0*\0\0\0\x08'), 'is TIFF; '],
  ['SVG', () => latin('<svg xmlns="http://www.w3.org/2000/svg"/>'), 'is HTML, SVG or XML; '],
  ['SVG with a declaration', () => latin('<?xml version="1.0"?>\n<svg/>'), 'is XML or SVG; '],
  ['HTML', () => latin('<!doctype html><p>404'), 'is HTML, SVG or XML; '],
  ['BMP', start('BM\x66\0\0\0\0\0\0\0\x36\0\0\0'), 'is BMP; '],
  ['ICO', start('\0\0\x01\0\x01\0\x10\x10'), 'is ICO; '],
  ['JPEG XL', start('\xff\x0a\xfa\x7f'), 'is JPEG XL; '],
  ['JPEG XL in boxes', start('\0\0\0\x0cJXL \r\n\x87\n'), 'is JPEG XL; '],
  ['JPEG 2000', start('\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x14ftypjp2 \0\0\0\0jp2 '), 'is JPEG 2000; '],
  ['PSD', start('8BPS\0\x01'), 'is PSD; '],
  ['PDF', () => latin('%PDF-1.7\n'), 'is PDF; '],
  ['PostScript', () => latin('%!PS-Adobe-3.0\n'), 'is PostScript; '],
  ['EPS', () => latin('%!PS-Adobe-3.0 EPSF-3.0\n'), 'is PostScript; '],
  ['CR3', start('\0\0\0\x18ftypcrx \0\0\0\x01crx isom'), 'is CR3; '],
  ['RAF', start('FUJIFILMCCD-RAW 0201'), 'is RAF; '],
  ['ORF', start('IIRO\x08\0\0\0\x18'), 'is ORF; '],
  ['RW2', start('IIU\0\x18\0\0\0\x88\xe7\x74\xd8'), 'is RW2; '],
  ['OpenEXR', start('v/1\x01'), 'is OpenEXR; '],
  ['DPX', start('SDPX'), 'is DPX; '],
  ['PGM', start('P5\n8 8\n255\n'), 'is PNM; '],
  ['PPM', start('P6\n8 8\n255\n'), 'is PNM; '],
  ['SGI', start('\x01\xda\x01\x01'), 'is SGI; '],
  ['PCX', start('\x0a\x05\x01\x08'), 'is PCX; '],
  ['ZIP', start('PK\x03\x04\x14\0\0\0\x08\0'), 'is ZIP; '],
  ['gzip', start('\x1f\x8b\x08\0'), 'is GZ; '],
  ['program', start('\x7fELF\x02\x01\x01'), 'is ELF; '],
  ['text', () => latin('A text. '.repeat(99)), 'is of an unknown format; '],
  ['text in UTF-16', () => Buffer.from('\ufeffA text.', 'utf16le'), 'is of an unknown format; '],
  ['empty JSON', () => latin('{}'), 'is of an unknown format; '],
  ['animated GIF', stored('anim.gif'), 'is an animated GIF; '],
  ['animated WebP', stored('anim.webp'), 'is an animated WebP; '],
  ['picture of 81 megapixels', stored('81mp.png'), 'has 81000000 pixels (9000×9000); '],
  [
    'cut-off PNG',
    cut(
      draw((picture) => picture.png()),
      0.2,
    ),
    'is a damaged or cut-off PNG; ',
  ],
  [
    'cut-off JPEG',
    cut(
      draw((picture) => picture.jpeg()),
      0.2,
    ),
    'is a damaged or cut-off JPEG; ',
  ],
  ['cut-off WebP', () => latin('RIFF\x30\0\0\0WEBPVP8 '), 'is a damaged or cut-off WebP; '],
  ['cut-off GIF', () => latin('GIF89a\x08\0\x08\0\0\0\0'), 'is a damaged or cut-off GIF; '],
  ['cut-off HEIC', cut(stored('patches.heic'), 0.5), 'is a damaged or cut-off HEIC; '],
  ['MP3 as a picture', stored('a.mp3'), 'is MP3; '],
  ['WAV as a picture', () => wav(), 'is WAV; '],
  ['film as a picture', () => makeFilm(), 'is MP4; '],
];

/** Returns a WAV of half a second. */
function wav({ tag = 1, bits = 16, rate = 8000, stated = 0, head = 'RIFF' } = {}): Buffer {
  const format = Buffer.alloc(24);
  format.write('fmt \x10\0\0\0', 'latin1');
  format.writeUInt16LE(tag, 8);
  format.writeUInt16LE(1, 10);
  format.writeUInt32LE(rate, 12);
  format.writeUInt32LE((rate * bits) / 8, 16);
  format.writeUInt16LE(bits / 8, 20);
  format.writeUInt16LE(bits, 22);
  const data = latin('data\0\0\0\0');
  const sound = Buffer.alloc((rate * bits) / 16);
  data.writeUInt32LE(stated || sound.length, 4);
  return Buffer.concat([latin(`${head}\xff\xff\xff\xffWAVE`), format, data, sound]);
}

const recordings: Kind[] = [
  ['MP3', stored('a.mp3')],
  ['MP3 that starts within a frame', async () => (await stored('a.mp3')()).subarray(300)],
  [
    'MP3 with a tag',
    async () =>
      Buffer.concat([latin('ID3\x04\0\0\0\0\x08\0'), Buffer.alloc(1024), await stored('a.mp3')()]),
  ],
  ['AAC', stored('a.aac')],
  ['M4A', stored('a.m4a')],
  ['M4B', async () => Buffer.from(await stored('a.m4a')()).fill('M4B ', 8, 12)],
  ['Ogg Vorbis', stored('a.ogg')],
  ['Ogg Opus, joined', stored('chained.ogg')],
  ['Ogg FLAC', stored('f.oga')],
  ['Ogg Speex', stored('s.spx')],
  ['Matroska sound', stored('a.mka')],
  ['sound of a Matroska film', stored('a.mkv')],
  ['WebM of a browser', stored('recording.webm')],
  ['WebM that starts late', stored('late.webm')],
  ['film with sound', stored('wide.mp4')],
  ...[8, 16, 24, 32].map((bits): Kind => [`WAV of ${bits} bits`, () => wav({ bits })]),
  ['WAV of 192 kHz', () => wav({ rate: 192_000 })],
  ['WAV of floating-point numbers', () => wav({ tag: 3, bits: 32 })],
  ['WAV of a pipe', () => wav({ stated: 0xffffffff })],
  ['RF64', () => wav({ head: 'RF64' })],
  ['WAV with two data chunks', stored('two-data.wav')],
  ['WAV with ADPCM', () => wav({ tag: 2, bits: 8 }), 'is WAV with ADPCM sound; '],
  ['AIFF', stored('fine.aiff'), 'is AIFF; '],
  ['AU', start('.snd\0\0\0\x20'), 'is AU; '],
  ['CAF', start('caff\0\x01\0\0'), 'is CAF; '],
  ['AMR', start('#!AMR\n'), 'is AMR; '],
  ['wide AMR', start('#!AMR-WB\n'), 'is AMR; '],
  ['AC-3', start('\x0b\x77\0\0\0\x40'), 'is AC-3; '],
  ['W64', start('riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb'), 'is W64; '],
  ['TTA', start('TTA1'), 'is TTA; '],
  ['WavPack', start('wvpk\x40\x02\0\0'), 'is WavPack; '],
  ['APE', start('MAC \x96\x0f'), 'is APE; '],
  ['WMA', start('0&\xb2\x75\x8e\x66\xcf\x11\xa6\xd9\0\xaa\0\x62\xce\x6c'), 'is WMA or WMV (ASF); '],
  ['MIDI', start('MThd\0\0\0\x06\0\x01'), 'is MID; '],
  ['film without sound', stored('late-film.webm'), 'is WebM without sound; '],
  ['cut-off M4A', cut(stored('a.m4a'), 0.4), 'is a damaged or cut-off M4A; '],
  ['picture as a recording', draw((picture) => picture.jpeg()), 'is JPEG; '],
  ['text as a recording', () => latin('A text. '.repeat(999)), 'is of an unknown format; '],
];

/** Returns a film with another main brand. */
const branded = (brand: string) => async (): Promise<Buffer> =>
  Buffer.from(await makeFilm()).fill(brand, 8, 12, 'latin1');

const films: Kind[] = [
  ['MP4', () => makeFilm()],
  ['MP4 with sound', () => makeFilm({ hasAudio: true })],
  ['M4V', branded('M4V ')],
  ['3GP', branded('3gp4')],
  ['QuickTime', branded('qt  ')],
  ['film of pixels that are not square', stored('wide.mp4')],
  ['WebM film', stored('late-film.webm')],
  ['Matroska', stored('a.mkv'), 'is Matroska; '],
  ['AVI', start('RIFF\0\0\0\0AVI LIST'), 'is AVI; '],
  ['FLV', start('FLV\x01\x05\0\0\0\x09'), 'is FLV; '],
  ['Ogg video', start(`OggS\0\x02${'\0'.repeat(20)}\x01\x2a\x80theora`), 'is an Ogg video; '],
  ['MPEG program stream', start('\0\0\x01\xba\x44\0\x04'), 'is an MPEG program stream; '],
  [
    'MPEG transport stream',
    () => Buffer.alloc(1880, latin(`\x47\x40\0\x10${'\xff'.repeat(184)}`)),
    'is an MPEG transport stream; ',
  ],
  ['MXF', start('\x06\x0e\x2b\x34\x02\x05\x01\x01\x0d\x01\x02\x01\x01\x02'), 'is MXF; '],
  ['sound as a film', stored('a.m4a'), 'is M4A; '],
  ['picture as a film', draw((picture) => picture.png()), 'is PNG; '],
  ['cut-off film', cut(() => makeFilm(), 0.3), 'is a damaged or cut-off MP4; '],
];

/** Endpoint that takes files of a medium, and the form that takes them. */
interface Use {
  use: string;
  field: string;
  form?: { path: string; part: string; lacks: string };
}

interface Answer {
  data: { credits: number; maxCredits: number };
  message: string;
  error: string | { message: string };
  details?: { path: string; message: string }[];
}

/**
 * Sends a body, and returns the maximum price of an estimate or the field and message of an error.
 * The price of a bulk job is a maximum.
 */
async function post(path: string, body: object): Promise<string> {
  const { status, body: answer } = await gateway.call<Answer>(`/api/v1${path}`, { body });
  if (status === 200) {
    const { credits, maxCredits } = answer.data;
    return `${path.includes('/bulk/') ? credits : maxCredits} credits`;
  }
  expect(status, JSON.stringify(answer)).toBeGreaterThanOrEqual(400);
  expect(status, JSON.stringify(answer)).toBeLessThan(500);
  const { error, details: [detail] = [] } = answer;
  if (detail) return `${detail.path}: ${detail.message}`;
  return typeof error === 'object' ? error.message : answer.message;
}

let files = 0;

/** Sends a file through each door. Returns the credits or the message of each. */
async function sendThroughDoors(bytes: Buffer, { use, field, form }: Use) {
  const estimate = (value: string) => post(`/studio/${use}/estimate`, { [field]: value });
  // A recording is copied and measured only if its URL has a secret.
  const url = gateway.media.put(`/${(files += 1)}?signature=x`, bytes);
  const signed = await signUpload(gateway);
  const put = await putFile(signed, bytes);
  const request = { use, body: { [field]: url } };
  const answers: Record<string, string> = {
    upload: put.ok ? await estimate(signed.fileId) : ((await put.json()) as Answer).message,
    url: await estimate(url),
    dataUrl: await estimate(`data:application/octet-stream;base64,${bytes.toString('base64')}`),
    step: await post('/studio/pipelines/estimate', { steps: [{ id: 'only', ...request }] }),
    item: await post('/studio/bulk/estimate', { items: [request] }),
  };
  if (form) {
    const part = new File([new Uint8Array(bytes)], 'IMG_1');
    answers['form'] = await post(form.path, makeForm({ [form.part]: part }));
  }
  return answers;
}

describe.each<[string, Kind[], Use]>([
  [
    'a picture',
    pictures,
    {
      use: 'image/upscale',
      field: 'imageUrl',
      form: { path: '/images/edits', part: 'image', lacks: 'prompt' },
    },
  ],
  [
    'a recording',
    recordings,
    {
      use: 'audio/transcribe',
      field: 'audioUrl',
      form: { path: '/audio/transcriptions', part: 'file', lacks: 'model' },
    },
  ],
  ['a film', films, { use: 'video/upscale', field: 'videoUrl' }],
])('%s', (_name, kinds, use) => {
  it.each(kinds)('has the same answer at every door: %s', async (_kind, make, refusal) => {
    const { form, ...answers } = await sendThroughDoors(await make(), use);
    if (refusal === undefined) {
      expect(answers['upload']).toMatch(/^[\d.]+ credits$/);
      for (const [door, answer] of Object.entries(answers)) {
        expect(answer, door).toBe(answers['upload']);
      }
      if (use.form) expect(form).toContain(use.form.lacks);
    } else {
      for (const [door, answer] of Object.entries({ ...answers, ...(use.form && { form }) })) {
        expect(answer, door).toContain(refusal);
      }
    }
  });
});
