/**
 * File types that callers may send, with their limits. The bytes of a file determine its type; its
 * name and Content-Type do not. No allowed type can contain anything that a browser executes (no
 * HTML, no SVG).
 */

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

/** Returns the accepted types as text, e.g. `PNG, JPEG, WebP and GIF`; of all uses by default. */
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
