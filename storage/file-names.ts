/** Names under which stored files are downloaded, which say what the files are. */
import { findMediaType } from './media-types.ts';

/** Stored file to name. */
export interface NamedFile {
  storageKey: string;
  contentType: string;
  /** Prompt, title or file name that describes the file; null if there is none. */
  text: string | null;
}

/** Maximum number of characters of a file name that describe the file. */
const nameLengthMax = 60;

/** Builds a file name from a text and the number of an output: `a-lighthouse-at-dawn-1.png`. */
export function buildFilename({ storageKey, contentType, text }: NamedFile): string {
  const stored = storageKey.slice(storageKey.lastIndexOf('/') + 1);
  const [stem = '', storedExtension = ''] = stored.split('.');
  const extension = findMediaType(contentType)?.extension ?? storedExtension;
  const words = text?.match(/[\p{L}\p{N}]+/gu) ?? [];
  let name = '';
  for (const word of words) {
    if (name.length + word.length >= nameLengthMax) break;
    name += name === '' ? word : `-${word}`;
  }
  if (name === '') return `${stem}.${extension}`;
  const [, call, output] = /^(\d+)-(\d+)$/.exec(stem) ?? [];
  if (call === undefined) return `${name}.${extension}`;
  const number = Number(output) + 1;
  return call === '0'
    ? `${name}-${number}.${extension}`
    : `${name}-${Number(call) + 1}-${number}.${extension}`;
}

/**
 * Builds the header Content-Disposition of a file (RFC 6266). Browsers show media and save other
 * files.
 */
export function buildDisposition(file: NamedFile): string {
  const filename = buildFilename(file);
  const type = findMediaType(file.contentType) ? 'inline' : 'attachment';
  // Clients disagree about other characters in `filename`; `filename*` has them.
  const ascii = filename.replaceAll(/[^\x20-\x7e]/g, '_');
  const header = `${type}; filename="${ascii}"`;
  if (ascii === filename) return header;
  // A name has only letters, digits, hyphens and a dot, all of which the encoding may contain.
  return `${header}; filename*=UTF-8''${encodeURIComponent(filename)}`;
}
