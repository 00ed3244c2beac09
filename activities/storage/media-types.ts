/**
 * The file types that callers may bring: extension, content type, medium, size limit, and how their
 * first bytes look. Nothing a browser runs is among them (no HTML, no SVG).
 */

/** What a file holds. */
export type Medium = 'image' | 'audio' | 'video';

/** One file type of the allow-list. */
export interface MediaType {
  extension: string;
  contentType: string;
  medium: Medium;
  /** Types of one family share a container, so their first bytes do not tell them apart. */
  family: string;
  /** Other spellings in use; the first content type is the one we write. */
  aliases: readonly string[];
  /** Whether a file that starts with these bytes can be of this type. */
  matches: (head: Buffer) => boolean;
}

/** Bytes that a caller's file may have, by medium. */
export const fileBytesMax: Readonly<Record<Medium, number>> = {
  image: 25 * 1024 * 1024,
  audio: 100 * 1024 * 1024,
  video: 200 * 1024 * 1024,
};

/** Bytes of a file's start that are enough to tell its type. */
export const sniffBytes = 64;

const text = (head: Buffer, from: number, length: number): string =>
  head.toString('latin1', from, from + length);
const starts = (hex: string) => (head: Buffer) =>
  head.toString('hex', 0, hex.length / 2).startsWith(hex);
const riff = (form: string) => (head: Buffer) =>
  text(head, 0, 4) === 'RIFF' && text(head, 8, 4) === form;

/** The major brand of an ISO base media file; QuickTime files may lack it. */
function brandOf(head: Buffer): string | null {
  const box = text(head, 4, 4);
  if (box === 'ftyp') return text(head, 8, 4);
  return ['moov', 'mdat', 'wide', 'free'].includes(box) ? 'qt  ' : null;
}

/** An MPEG audio frame: 11 sync bits, a layer, a bit rate and a sample rate that exist. */
function isMpegAudio(head: Buffer): boolean {
  const [first = 0, second = 0, third = 0] = head;
  if (text(head, 0, 3) === 'ID3') return true;
  const synced = first === 0xff && (second & 0xe0) === 0xe0 && (second & 0x18) !== 0x08;
  const layered = (second & 0x06) !== 0;
  return synced && layered && (third & 0xf0) !== 0xf0 && (third & 0x0c) !== 0x0c;
}

const row = (
  medium: Medium,
  names: [extension: string, contentType: string, ...aliases: string[]],
  look: { family?: string; matches: MediaType['matches'] },
): MediaType => {
  const [extension, contentType, ...aliases] = names;
  return { extension, contentType, aliases, medium, family: extension, ...look };
};
const isoMedia = (isBrand: (brand: string) => boolean) => ({
  family: 'iso-media',
  matches: (head: Buffer) => {
    const brand = brandOf(head);
    return brand !== null && isBrand(brand);
  },
});
const audioBrands = new Set(['M4A ', 'M4B ']);

/** The allow-list. */
export const mediaTypes: readonly MediaType[] = [
  row('image', ['png', 'image/png'], { matches: starts('89504e470d0a1a0a') }),
  row('image', ['jpg', 'image/jpeg', 'image/jpg'], { matches: starts('ffd8ff') }),
  row('image', ['webp', 'image/webp'], { matches: riff('WEBP') }),
  row('image', ['gif', 'image/gif'], {
    matches: (head) => ['GIF87a', 'GIF89a'].includes(text(head, 0, 6)),
  }),
  row('audio', ['mp3', 'audio/mpeg', 'audio/mp3'], { matches: isMpegAudio }),
  row('audio', ['wav', 'audio/wav', 'audio/x-wav', 'audio/wave', 'audio/vnd.wave'], {
    matches: riff('WAVE'),
  }),
  row(
    'audio',
    ['m4a', 'audio/mp4', 'audio/x-m4a', 'audio/m4a'],
    isoMedia((brand) => audioBrands.has(brand)),
  ),
  row('audio', ['flac', 'audio/flac', 'audio/x-flac'], { matches: starts('664c6143') }),
  row('audio', ['ogg', 'audio/ogg', 'application/ogg'], { matches: starts('4f676753') }),
  row(
    'video',
    ['mp4', 'video/mp4'],
    isoMedia((brand) => brand !== 'qt  ' && !audioBrands.has(brand)),
  ),
  row('video', ['webm', 'video/webm'], {
    matches: (head) => starts('1a45dfa3')(head) && head.includes('webm'),
  }),
  row(
    'video',
    ['mov', 'video/quicktime'],
    isoMedia((brand) => brand === 'qt  '),
  ),
];

const otherExtensions: Readonly<Record<string, string>> = { jpeg: 'jpg', oga: 'ogg', opus: 'ogg' };

/** The type that a Content-Type names, parameters aside; undefined when it is not on the list. */
export function mediaTypeOf(contentType: string): MediaType | undefined {
  const wanted = contentType.split(';')[0]?.trim().toLowerCase() ?? '';
  return mediaTypes.find((type) => type.contentType === wanted || type.aliases.includes(wanted));
}

/** The type that a file name's extension names; undefined when it is not on the list. */
export function mediaTypeOfExtension(extension: string): MediaType | undefined {
  const lower = extension.toLowerCase();
  const wanted = otherExtensions[lower] ?? lower;
  return mediaTypes.find((type) => type.extension === wanted);
}

/** The type that the first bytes of a file show; undefined when it is not on the list. */
export function sniff(head: Buffer): MediaType | undefined {
  return mediaTypes.find((type) => type.matches(head));
}
