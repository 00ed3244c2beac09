/** A form with at most one file in it, which is streamed: no library's form does that with its length known. */
import { Readable } from 'node:stream';

/** A file of a form. */
export interface FormFile {
  name: string;
  contentType: string;
  sizeBytes: number;
  stream: Readable;
}

const boundary = 'studio-gateway-7c1f0b9a5e2d4386';

/** The body of a form, and its headers. */
export function encodeForm(
  fields: Record<string, string>,
  file: FormFile | null,
): { headers: Record<string, string>; body: Readable } {
  const texts = Object.entries(fields).map(
    ([name, value]) =>
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  const head = file
    ? `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${quotable(file.name)}"\r\n` +
      `Content-Type: ${file.contentType}\r\n\r\n`
    : '';
  const before = Buffer.from(texts.join('') + head);
  const after = Buffer.from(`${file ? '\r\n' : ''}--${boundary}--\r\n`);
  const length = before.length + (file?.sizeBytes ?? 0) + after.length;
  return {
    headers: {
      'content-type': `multipart/form-data; boundary=${boundary}`,
      'content-length': String(length),
    },
    body: Readable.from(form(before, file?.stream ?? null, after), { objectMode: false }),
  };
}

async function* form(before: Buffer, file: Readable | null, after: Buffer): AsyncGenerator<Buffer> {
  yield before;
  if (file) yield* file as AsyncIterable<Buffer>;
  yield after;
}

/** A file name that fits between quotes of a header. */
function quotable(name: string): string {
  return name.replaceAll(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, '_');
}
