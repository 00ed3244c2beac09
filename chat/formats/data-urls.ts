/** Parses `data:` URIs of chat requests (RFC 2397), in all the forms that clients send. */

/** Content of a data URI. */
export interface DataUrl {
  /** Media type in lower case, without parameters. Empty if the URI has none. */
  type: string;
  /** File name in the parameter `name` or `filename`. */
  name?: string;
  bytes: Buffer;
}

/** Maximum length of the media type and its parameters. */
const headLengthMax = 1024;

/** Parses a data URI. Returns null if it is malformed or has no data. */
export function parseDataUrl(url: string): DataUrl | null {
  const [, head] = /^data:([^,]*),/is.exec(url.slice(0, headLengthMax)) ?? [];
  if (head === undefined) return null;
  const [type = '', ...parameters] = head.split(';').map((parameter) => parameter.trim());
  const isBase64 = parameters.at(-1)?.toLowerCase() === 'base64';
  const data = url.slice('data:,'.length + head.length);
  const bytes = isBase64 ? decodeBase64(data) : decodePercent(data);
  if (!bytes) return null;
  const [nameText] = parameters.flatMap(
    (parameter) => /^(?:file)?name=(.*)$/is.exec(parameter)?.[1] ?? [],
  );
  const name = nameText === undefined ? '' : (unescape(nameText) ?? nameText).replaceAll('"', '');
  return { type: type.toLowerCase(), bytes, ...(name !== '' && { name }) };
}

/** Formats a data URI in base64. */
export function formatDataUrl({ type, bytes }: DataUrl): string {
  return `data:${type};base64,${bytes.toString('base64')}`;
}

/**
 * Decodes base64, also with line breaks, with the letters of base64url, without padding, or
 * percent-encoded. Returns null for other characters and if there are no bytes.
 */
export function decodeBase64(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.length > 0 && bytes.toString('base64') === text) return bytes;
  const unescaped = text.includes('%') ? unescape(text) : text;
  const letters = unescaped?.replaceAll(/[\t\n\f\r ]/g, '').replace(/={1,2}$/, '') ?? '';
  const isValid = letters !== '' && letters.length % 4 !== 1 && !/[^\w+/-]/.test(letters);
  return isValid ? Buffer.from(letters, 'base64') : null;
}

function decodePercent(text: string): Buffer | null {
  const unescaped = unescape(text);
  return unescaped ? Buffer.from(unescaped) : null;
}

/** Decodes percent-encoded text. Returns null if it is malformed. */
function unescape(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

const latin1 = (bytes: Buffer, start: number, end: number): string =>
  bytes.subarray(start, end).toString('latin1');

/** Types that the first bytes of a file prove. */
const detectors: readonly [type: string, matches: (bytes: Buffer) => boolean][] = [
  ['image/png', (bytes) => latin1(bytes, 0, 8) === '\x89PNG\r\n\x1A\n'],
  ['image/jpeg', (bytes) => latin1(bytes, 0, 3) === '\xFF\xD8\xFF'],
  ['image/gif', (bytes) => /^GIF8[79]a$/.test(latin1(bytes, 0, 6))],
  ['image/webp', (bytes) => /^RIFF[^]{4}WEBP$/.test(latin1(bytes, 0, 12))],
  ['application/pdf', (bytes) => latin1(bytes, 0, 1024).includes('%PDF-')],
  ['audio/wav', (bytes) => /^RIFF[^]{4}WAVE$/.test(latin1(bytes, 0, 12))],
  ['audio/mpeg', (bytes) => /^(?:ID3|\xFF[\xE2-\xFF])/.test(latin1(bytes, 0, 3))],
  ['video/webm', (bytes) => latin1(bytes, 0, 4) === '\x1A\x45\xDF\xA3'],
];

/**
 * Returns the type of the bytes, or the named type if the bytes prove none. Empty if neither is
 * known, or if a picture or a PDF is named and the bytes are none.
 */
export function detectType({ type, bytes }: DataUrl): string {
  const found = detectors.find(([, matches]) => matches(bytes))?.[0];
  if (found !== undefined) return found;
  const isUnnamed = type === '' || type === 'application/octet-stream';
  if (!isUnnamed) return /^image\/|^application\/pdf$/.test(type) ? '' : type;
  if (latin1(bytes, 4, 8) === 'ftyp') return 'video/mp4';
  return isText(bytes) ? 'text/plain' : '';
}

function isText(bytes: Buffer): boolean {
  try {
    return !new TextDecoder('utf-8', { fatal: true }).decode(bytes).includes('\0');
  } catch {
    return false;
  }
}
