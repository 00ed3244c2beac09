/** Recognizes the formats that the gateway reads by the first bytes of a file. */

/** Number of bytes at the start of a file, after tags, that are enough to recognize it. */
export const signatureBytes = 4096;

/** Brands of ISO media files that are pictures, with the names of their formats. */
const pictureBrands: Readonly<Record<string, string>> = {
  avif: 'AVIF',
  avis: 'AVIF',
  heic: 'HEIC',
  heix: 'HEIC',
  heim: 'HEIC',
  heis: 'HEIC',
  hevc: 'HEIC',
  hevx: 'HEIC',
  mif1: 'HEIF',
  msf1: 'HEIF',
  miaf: 'HEIF',
};

/** Boxes with which old QuickTime films without a brand start. */
const quickTimeBoxes = new Set(['moov', 'mdat', 'wide', 'free', 'skip', 'pnot']);

/**
 * Recognized format: the extensions of the types that it can be, the likeliest first (a container
 * may have sound only); or the name of a format that is not accepted. Null if it is unknown.
 */
type Signature = { extensions: readonly [string, ...string[]] } | { refused: string } | null;

const one = (extension: string): Signature => ({ extensions: [extension] });

/** Recognizes a file by its first bytes. */
export function recognizeFormat(head: Buffer): Signature {
  const text = (start: number, end: number): string => head.toString('latin1', start, end);
  if (text(0, 8) === '\x89PNG\r\n\x1a\n') return one('png');
  if (text(0, 3) === '\xff\xd8\xff') return one('jpg');
  if (/^GIF8[79]a$/.test(text(0, 6))) return one('gif');
  if (text(0, 4) === 'RIFF' && text(8, 12) === 'WEBP') return one('webp');
  if (/^(RIFF|RF64|BW64)$/.test(text(0, 4)) && text(8, 12) === 'WAVE') return one('wav');
  if (text(0, 4) === 'OggS') return one('ogg');
  if (text(0, 4) === 'fLaC') return one('flac');
  if (text(0, 4) === '\x1a\x45\xdf\xa3') return recognizeMatroska(text(0, 64));
  if (text(4, 8) === 'ftyp') return recognizeIsoMedia(head);
  if (quickTimeBoxes.has(text(4, 8))) return { extensions: ['mov', 'mp4', 'm4a'] };
  if (text(0, 4) === '.snd') return { refused: 'AU' };
  if (/^(II\*\0|MM\0\*)$/.test(text(0, 4))) return { refused: 'TIFF' };
  if (text(0, 4) === 'riff') return { refused: 'W64' };
  const [first = 0, second = 0] = head;
  if (first === 0xff && (second & 0xf6) === 0xf0) return one('aac');
  if (first === 0xff && (second & 0xe6) === 0xe2) return one('mp3');
  return null;
}

/** Distinguishes WebM from Matroska by the name of the document type in the header. */
function recognizeMatroska(header: string): Signature {
  return header.includes('webm')
    ? { extensions: ['webm', 'weba', 'mkv', 'mka'] }
    : { extensions: ['mkv', 'mka', 'webm', 'weba'] };
}

function recognizeIsoMedia(head: Buffer): Signature {
  const end = Math.min(head.readUInt32BE(0), 256, head.length);
  const brands = [head.toString('latin1', 8, 12)];
  for (let at = 16; at + 4 <= end; at += 4) brands.push(head.toString('latin1', at, at + 4));
  const names = brands.map((brand) => pictureBrands[brand]).filter((name) => name !== undefined);
  const [main = ''] = brands;
  if (names.length > 0) {
    return { refused: names.find((name) => name !== 'HEIF') ?? 'HEIF' };
  }
  if (main === 'qt  ') return { extensions: ['mov', 'mp4', 'm4a'] };
  if (/^M4[AB] $/.test(main)) return { extensions: ['m4a', 'mp4', 'mov'] };
  return { extensions: ['mp4', 'm4a', 'mov'] };
}
