/** Parses `multipart/form-data` bodies into memory. */
import { createHash } from 'node:crypto';
import { pipeline } from 'node:stream/promises';
import { Busboy } from '@fastify/busboy';
import { bodyBytesMax, UnreadableRequestError, type Exchange } from './http.ts';

/** File in a form. */
export interface FormFile {
  /** Name of the form field. */
  field: string;
  name: string;
  contentType: string;
  bytes: Buffer;
}

/** Parsed form, with all values of each field in order. */
export interface Form {
  fields: Map<string, string[]>;
  files: FormFile[];
}

/**
 * Parses the request's form.
 * @throws UnreadableRequestError 422 if the body is not a form, 413 if a file is too large
 */
export async function readForm({ request }: Exchange): Promise<Form> {
  const contentType = request.headers['content-type'] ?? '';
  if (!contentType.startsWith('multipart/form-data')) {
    throw new UnreadableRequestError(422, 'The body must be multipart/form-data');
  }
  const form: Form = { fields: new Map(), files: [] };
  let isTooLarge = false;
  const headers = { ...request.headers, 'content-type': contentType };
  const parser = new Busboy({ headers, limits: { fileSize: bodyBytesMax } });
  parser.on('field', (name, value) => {
    form.fields.set(name, [...(form.fields.get(name) ?? []), value]);
  });
  // oxlint-disable-next-line max-params -- the parser's own signature
  parser.on('file', (field, stream, name, _encoding, mimeType) => {
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('limit', () => (isTooLarge = true));
    stream.on('end', () => {
      form.files.push({ field, name, contentType: mimeType, bytes: Buffer.concat(chunks) });
    });
  });
  try {
    await pipeline(request, parser);
  } catch (error) {
    throw new UnreadableRequestError(422, error instanceof Error ? error.message : 'Broken form');
  }
  if (isTooLarge) throw new UnreadableRequestError(413, 'Request body too large');
  return form;
}

function describeFile({ name, contentType, bytes }: FormFile) {
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { name, contentType, sizeBytes: bytes.length, sha256 };
}

/** Converts a form for the log: files are described by name, type, size and hash instead of their bytes. */
export function describeForm({ fields, files }: Form): Record<string, unknown> {
  const all = new Map<string, unknown[]>(fields);
  for (const file of files) {
    all.set(file.field, [...(all.get(file.field) ?? []), describeFile(file)]);
  }
  return Object.fromEntries(
    [...all].map(([name, values]) => [name, values.length === 1 ? values[0] : values]),
  );
}
