/**
 * File types that callers may send, with their limits. The bytes of a file determine its type; its
 * name and Content-Type do not. No allowed type can contain anything that a browser executes (no
 * HTML, no SVG).
 */
import { type ByteSource, createObjectSource } from './byte-source.ts';
import { readMedia, type MediaFacts } from './media-reader.ts';
import { describeRemedy, findRefusedStart } from './refused-formats.ts';
import { readTagBytes } from './media-chunks.ts';
import type { InputMeasurements } from '../domain/measured-price.ts';
import type { Storage } from './storage.ts';

type Medium = 'image' | 'audio' | 'video';

/** Allowed file type. */
export interface MediaType {
  /** Extension of stored files. */
  extension: string;
  contentType: string;
  medium: Medium;
  /** Name in messages. */
  name: string;
  /** Other content types and extensions of the same format, with which callers name it. */
  aliases: readonly string[];
  /** True if files of this type are converted when they arrive (picture-conversion.ts). */
  isConverted?: true;
}

/** Maximum size of a file in bytes, keyed by medium. */
export const fileBytesMax: Readonly<Record<Medium, number>> = {
  image: 25 * 1024 * 1024,
  audio: 100 * 1024 * 1024,
  video: 200 * 1024 * 1024,
};

/** Maximum number of pixels of a picture. The limit protects against decompression bombs. */
export const pixelsMax = 64_000_000;

const createType = (
  [extension, contentType, name]: [string, `${Medium}/${string}`, string],
  aliases: string,
): MediaType => {
  const medium = contentType.split('/')[0];
  return {
    extension,
    contentType,
    medium: medium === 'image' || medium === 'audio' ? medium : 'video',
    name,
    aliases: aliases.split(' '),
  };
};

/** All allowed file types. */
export const mediaTypes: readonly MediaType[] = [
  createType(['png', 'image/png', 'PNG'], 'image/apng image/x-png apng'),
  createType(['jpg', 'image/jpeg', 'JPEG'], 'image/jpg image/pjpeg jpeg jfif jpe pjpeg'),
  createType(['webp', 'image/webp', 'WebP'], 'image/x-webp'),
  createType(['gif', 'image/gif', 'GIF'], 'image/x-gif'),
  { ...createType(['heic', 'image/heic', 'HEIC'], 'image/heif heif hif'), isConverted: true },
  { ...createType(['avif', 'image/avif', 'AVIF'], 'image/x-avif'), isConverted: true },
  createType(
    ['mp3', 'audio/mpeg', 'MP3'],
    'audio/mp3 audio/x-mp3 audio/x-mpeg audio/mpeg3 audio/x-mpeg-3 audio/mpg mpga',
  ),
  createType(
    ['wav', 'audio/wav', 'WAV'],
    'audio/x-wav audio/wave audio/vnd.wave audio/x-pn-wav wave rf64 bwf',
  ),
  createType(
    ['m4a', 'audio/mp4', 'M4A'],
    'audio/x-m4a audio/m4a audio/x-m4b audio/m4b audio/3gpp audio/3gpp2 m4b m4r 3ga',
  ),
  createType(['aac', 'audio/aac', 'AAC'], 'audio/aacp audio/x-aac audio/vnd.dlna.adts adts'),
  createType(['flac', 'audio/flac', 'FLAC'], 'audio/x-flac'),
  createType(['ogg', 'audio/ogg', 'Ogg'], 'application/ogg audio/opus audio/x-ogg oga opus spx'),
  createType(['weba', 'audio/webm', 'WebM sound'], 'audio/x-webm'),
  createType(['mka', 'audio/x-matroska', 'Matroska sound'], 'audio/matroska'),
  createType(
    ['mp4', 'video/mp4', 'MP4'],
    'video/x-m4v video/m4v video/3gpp video/3gpp2 m4v 3gp 3gpp 3g2',
  ),
  createType(['webm', 'video/webm', 'WebM'], 'video/x-webm'),
  createType(['mov', 'video/quicktime', 'QuickTime'], 'video/mov qt'),
  createType(['mkv', 'video/x-matroska', 'Matroska'], 'video/matroska'),
];

/** Use of a file in a request. */
export type MediaUse = 'picture' | 'film' | 'recording';

/** File types that the providers accept for each use. Sound may be that of a film. */
const acceptedTypes: Readonly<Record<MediaUse, readonly MediaType[]>> = {
  picture: mediaTypes.filter(({ medium }) => medium === 'image'),
  film: mediaTypes.filter(({ extension }) => ['mp4', 'webm', 'mov'].includes(extension)),
  recording: mediaTypes.filter(({ medium }) => medium !== 'image'),
};

/** Returns whether a file type is accepted for a use. */
export const isAccepted = (type: MediaType, use: MediaUse): boolean =>
  acceptedTypes[use].some(({ extension }) => extension === type.extension);

/** Returns the accepted types as text, e.g. `MP4, WebM and QuickTime`; of all uses by default. */
export function listAccepted(use?: MediaUse): string {
  const names = (use ? acceptedTypes[use] : mediaTypes).map(({ name }) => name);
  return `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
}

/**
 * Returns the allowed type for a Content-Type, ignoring its parameters, or for a file extension;
 * undefined if the type is not allowed.
 */
export function findMediaType(name: string): MediaType | undefined {
  const text = name.split(';')[0]?.trim().toLowerCase() ?? '';
  return mediaTypes.find(
    (type) => type.contentType === text || type.extension === text || type.aliases.includes(text),
  );
}

/**
 * Returns the maximum size of an upload in bytes: the limit of its declared type. If `contentType`
 * is null or not an allowed type, returns the largest limit.
 */
export function findUploadBytesMax(contentType: string | null): number {
  const type = contentType === null ? undefined : findMediaType(contentType);
  return type ? fileBytesMax[type.medium] : Math.max(...Object.values(fileBytesMax));
}

/** Number of bytes at the start of a file, after tags, that are enough to recognize it. */
export const signatureBytes = 4096;

/** Brands of ISO media files that are pictures, with the extensions of their formats. */
const pictureBrands: ReadonlyMap<string, string> = new Map([
  ...['avif', 'avis'].map((brand) => [brand, 'avif'] as const),
  ...['heic', 'heix', 'heim', 'heis', 'hevc', 'hevx'].map((brand) => [brand, 'heic'] as const),
]);
/** Brands of pictures whose codec another brand names; without one, it is that of HEIC. */
const generalPictureBrands = new Set(['mif1', 'msf1', 'miaf']);

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
  const refused = findRefusedStart(text(0, 5));
  if (refused !== null) return { refused };
  const [first = 0, second = 0] = head;
  if (first === 0xff && (second & 0xf6) === 0xf0) return one('aac');
  if (first === 0xff && (second & 0xe6) === 0xe2) return one('mp3');
  return null;
}

/**
 * Returns whether a file that starts with these bytes may be of a use. Sound may follow tags and may
 * start within a frame, so only a format of another use excludes it.
 */
export function mayBeUsed(head: Buffer, use: MediaUse): boolean {
  const signature = recognizeFormat(head);
  if (!signature) return use === 'recording' || readTagBytes(head) > 0;
  if ('refused' in signature) return false;
  return acceptedTypes[use].some(({ extension }) => signature.extensions.includes(extension));
}

/** Returns whether a file that starts with these bytes is converted when it arrives. */
export function isConverted(head: Buffer): boolean {
  const signature = recognizeFormat(head);
  const [extension] = signature && 'extensions' in signature ? signature.extensions : [''];
  return findMediaType(extension)?.isConverted === true;
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
  const [main = ''] = brands;
  const [picture] = brands.flatMap((brand) => pictureBrands.get(brand) ?? []);
  if (picture) return one(picture);
  if (brands.some((brand) => generalPictureBrands.has(brand))) return one('heic');
  if (main === 'crx ') return { refused: 'CR3' };
  if (main === 'qt  ') return { extensions: ['mov', 'mp4', 'm4a'] };
  if (/^M4[AB] $/.test(main)) return { extensions: ['m4a', 'mp4', 'mov'] };
  return { extensions: ['mp4', 'm4a', 'mov'] };
}

/** File that cannot be used. The message completes a sentence about the file. */
export class UnusableFile extends Error {
  override readonly name = 'UnusableFile';
  readonly code: 'UNSUPPORTED_MEDIA_TYPE' | 'FILE_TOO_LARGE';

  constructor(
    message: string,
    code: UnusableFile['code'] = 'UNSUPPORTED_MEDIA_TYPE',
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.code = code;
  }
}

export type AcceptedFacts = Exclude<MediaFacts, { kind: 'refused' }>;

/**
 * Reads a file, closes the source, and checks that the file can be used. Without `use`, every
 * medium is accepted.
 * @throws UnusableFile; GatewayError SERVICE_UNAVAILABLE
 */
export async function readAccepted(source: ByteSource, use?: MediaUse): Promise<AcceptedFacts> {
  const facts = await readMedia(source);
  const refuse = (found: string): never => {
    const remedy = describeRemedy(found);
    throw new UnusableFile(`is ${found}; accepted are ${listAccepted(use)}${remedy}`);
  };
  if (facts.kind === 'refused') return refuse(facts.found);
  const { name } = facts.type;
  if (use && !isAccepted(facts.type, use)) return refuse(name);
  if (facts.kind === 'picture') checkPicture(facts, use);
  if (facts.kind === 'recording') {
    const hasSound = (facts.audio?.durationSeconds ?? 0) > 0;
    if (use === 'film' && !facts.video) return refuse(`${name} without a picture track`);
    if (use === 'recording' && !hasSound) return refuse(`${name} without sound`);
  }
  return facts;
}

/** Checks the number of pixels of every picture, and the number of frames of one that is used. */
function checkPicture(
  { type, width, height, isAnimated }: Extract<MediaFacts, { kind: 'picture' }>,
  use: MediaUse | undefined,
): void {
  const pixels = width * height;
  if (pixels > pixelsMax) {
    const message = `has ${pixels} pixels (${width}×${height}); at most ${pixelsMax} are allowed`;
    throw new UnusableFile(message, 'FILE_TOO_LARGE');
  }
  if (use && isAnimated) {
    throw new UnusableFile(`is an animated ${type.name}; accepted are pictures with one frame`);
  }
}

/**
 * Checks that a file of a known type is not too large.
 * @throws UnusableFile
 */
export function checkFileSize({ name, medium }: MediaType, sizeBytes: number): void {
  const bytesMax = fileBytesMax[medium];
  if (sizeBytes <= bytesMax) return;
  const message = `has ${sizeBytes} bytes; ${name} may have at most ${bytesMax}`;
  throw new UnusableFile(message, 'FILE_TOO_LARGE');
}

/** Uses of inputs by the medium that their field accepts. */
export const inputUses = {
  image: 'picture',
  video: 'film',
  audio: 'recording',
} as const satisfies Record<string, MediaUse>;

/** Measures a stored picture, video or recording. @throws UnusableFile */
export const measureInput = (
  storage: Storage,
  storageKey: string,
  medium: keyof typeof inputUses,
): Promise<InputMeasurements> => measureSource(createObjectSource(storage, storageKey), medium);

/** Measures a picture, video or recording, and closes the source. @throws UnusableFile */
export async function measureSource(
  source: ByteSource,
  medium: keyof typeof inputUses,
): Promise<InputMeasurements> {
  const facts = await readAccepted(source, inputUses[medium]);
  if (facts.kind === 'picture') {
    return { width: facts.width, height: facts.height, durationSeconds: null };
  }
  const soundSeconds = facts.audio?.durationSeconds ?? 0;
  const hasAudio = soundSeconds > 0;
  if (medium === 'audio') return { width: 0, height: 0, durationSeconds: soundSeconds, hasAudio };
  if (!facts.video) throw new UnusableFile('has no picture track');
  return { ...facts.video, hasAudio };
}
