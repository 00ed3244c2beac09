/** Decodes the text of a file: UTF-8, UTF-16 with or without a byte order mark, or a named encoding. */

/** File of which no item can be used, because of its encoding or its form. */
export class UnreadableFileError extends Error {
  override readonly name = 'UnreadableFileError';
}

/** Number of bytes that decide whether a file without a byte order mark is UTF-16. */
const sampleBytes = 512;

/**
 * Decodes a text strictly. `otherEncoding` is used if it is neither UTF-8 nor UTF-16.
 * @throws UnreadableFileError
 */
export function decodeText(
  bytes: Uint8Array,
  otherEncoding?: string,
): { text: string; encoding: string } {
  const encoding = detectUnicode(bytes);
  const text = decode(bytes, encoding);
  if (text !== undefined) return { text, encoding };
  if (otherEncoding === undefined) throw new UnreadableFileError(describePlace(bytes, encoding));
  const otherText = decode(bytes, otherEncoding);
  // Control characters show that the encoding is another one.
  if (otherText === undefined || /[\u0080-\u009F\uFFFD]/.test(otherText))
    throw new UnreadableFileError(
      `The file is neither UTF-8 nor ${otherEncoding}. Save it as UTF-8.`,
    );
  return { text: otherText, encoding: otherEncoding };
}

/** Texts of bulk jobs contain ASCII, so each second byte of UTF-16 is often zero. */
function detectUnicode(bytes: Uint8Array): string {
  const [first, second] = bytes;
  if (first === 0xff && second === 0xfe) return 'utf-16le';
  if (first === 0xfe && second === 0xff) return 'utf-16be';
  const sample = bytes.subarray(0, sampleBytes);
  const zeros = (parity: number): number =>
    sample.filter((byte, index) => byte === 0 && index % 2 === parity).length;
  if (zeros(1) > sample.length / 4) return 'utf-16le';
  return zeros(0) > sample.length / 4 ? 'utf-16be' : 'utf-8';
}

function decode(bytes: Uint8Array, encoding: string): string | undefined {
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function describePlace(bytes: Uint8Array, encoding: string): string {
  const text = new TextDecoder(encoding).decode(bytes);
  const before = text.slice(0, Math.max(0, text.indexOf('\uFFFD')));
  const lines = before.split(/\r\n|\r|\n/);
  const after = lines.at(-1)?.slice(-20) ?? '';
  return `The file is not ${encoding.toUpperCase()}: see line ${lines.length} after ${JSON.stringify(after)}. Save it as UTF-8 (in Excel: CSV UTF-8), or name its encoding (--encoding windows-1252).`;
}
