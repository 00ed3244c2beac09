/** Common formats that are not accepted: how they are recognized, and what a caller can do instead. */

interface RefusedFormat {
  name: string;
  advice: string;
  /** Extensions and content types with which callers name it. */
  aliases: readonly string[];
  /** First bytes, of formats that `file-type` does not recognize. */
  starts: readonly string[];
}

const advice = {
  image: 'export it as PNG or JPEG',
  audio: 'convert it to WAV, FLAC or MP3',
  video: 'convert it to MP4',
} as const;

const createFormat = (
  [name, medium]: [string, keyof typeof advice],
  aliases: string,
  ...starts: string[]
): RefusedFormat => ({ name, advice: advice[medium], aliases: aliases.split(' '), starts });

const refusedFormats: readonly RefusedFormat[] = [
  createFormat(['TIFF', 'image'], 'tif tiff image/tiff', 'II*\0', 'MM\0*'),
  createFormat(['XML or SVG', 'image'], 'svg svgz image/svg image/svg+xml'),
  createFormat(['HTML, SVG or XML', 'image'], ''),
  createFormat(['BMP', 'image'], 'bmp dib image/bmp image/x-bmp image/x-ms-bmp'),
  createFormat(['ICO', 'image'], 'ico image/x-icon image/vnd.microsoft.icon'),
  createFormat(['JPEG XL', 'image'], 'jxl image/jxl'),
  createFormat(['JPEG 2000', 'image'], 'jp2 j2k jpx image/jp2'),
  createFormat(['PSD', 'image'], 'psd psb image/vnd.adobe.photoshop image/x-photoshop'),
  createFormat(['PDF', 'image'], 'pdf application/pdf'),
  createFormat(['PostScript', 'image'], 'ps eps application/postscript', '%!PS'),
  ...['dng', 'cr2', 'cr3', 'nef', 'arw', 'orf', 'rw2', 'raf'].map((extension) =>
    createFormat([extension.toUpperCase(), 'image'], `${extension} image/x-${extension}`),
  ),
  createFormat(['OpenEXR', 'image'], 'exr image/x-exr', 'v/1\x01'),
  createFormat(['DPX', 'image'], 'dpx', 'SDPX', 'XPDS'),
  createFormat(['PNM', 'image'], 'pbm pgm ppm pnm', 'P5\n', 'P6\n'),
  createFormat(['SGI', 'image'], 'sgi', '\x01\xda\0\x01', '\x01\xda\x01\x01'),
  createFormat(['PCX', 'image'], 'pcx image/x-pcx', '\x0a\x05\x01'),
  createFormat(['AIFF', 'audio'], 'aif aiff aifc audio/aiff audio/x-aiff'),
  createFormat(['AU', 'audio'], 'au snd audio/basic', '.snd'),
  createFormat(['CAF', 'audio'], 'caf audio/x-caf', 'caff'),
  createFormat(['AMR', 'audio'], 'amr awb audio/amr audio/amr-wb', '#!AMR'),
  createFormat(['AC-3', 'audio'], 'ac3 audio/ac3'),
  createFormat(['W64', 'audio'], 'w64', 'riff'),
  createFormat(['TTA', 'audio'], 'tta audio/x-tta', 'TTA'),
  createFormat(['WavPack', 'audio'], 'wv audio/x-wavpack'),
  createFormat(['APE', 'audio'], 'ape audio/x-ape'),
  createFormat(
    ['WMA or WMV (ASF)', 'audio'],
    'wma wmv asf audio/x-ms-wma video/x-ms-wmv',
    '0&\xb2u',
  ),
  createFormat(['AVI', 'video'], 'avi video/x-msvideo video/avi'),
  createFormat(['an Ogg video', 'video'], 'ogv video/ogg'),
  createFormat(['FLV', 'video'], 'flv video/x-flv'),
  createFormat(['an MPEG transport stream', 'video'], 'mts m2ts video/mp2t'),
  createFormat(['an MPEG program stream', 'video'], 'mpg mpeg vob video/mpeg'),
];

/** Returns the name of a refused format by its first bytes; null if they are of no such format. */
export const findRefusedStart = (text: string): string | null =>
  refusedFormats.find(({ starts }) => starts.some((start) => text.startsWith(start)))?.name ?? null;

/** Returns the refused format that an extension or content type names; undefined if there is none. */
export const findRefused = (alias: string): RefusedFormat | undefined =>
  alias === '' ? undefined : refusedFormats.find(({ aliases }) => aliases.includes(alias));

/** Returns the end of a message that names a refused format: what to do; empty for other names. */
export function describeRemedy(name: string): string {
  const format = refusedFormats.find((refused) => refused.name === name);
  return format ? `; ${format.advice}` : '';
}
