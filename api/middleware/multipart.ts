/** multipart/form-data: a few short texts and one file, which is streamed to where it is kept. */
import { Busboy, type BusboyFileStream, type BusboyHeaders } from '@fastify/busboy';
import { GatewayError, refusedFields } from '../../domain/errors.ts';
import type { Context } from '../context.ts';

/** What a form may hold. */
interface FormRules<Kept> {
  /** The name of the file's part. */
  field: string;
  bytesMax: number;
  /** Takes the file; rejects to refuse the request. */
  keep: (stream: BusboyFileStream) => Promise<Kept>;
}

/** A form that was read. */
export interface ReceivedForm<Kept> {
  texts: Record<string, string>;
  /** Null when the form has no file. */
  file: { kept: Kept; name: string } | null;
}

const limits = {
  files: 1,
  fields: 16,
  parts: 17,
  fieldNameSize: 100,
  fieldSize: 4096,
  headerPairs: 20,
} as const;
/** Boundaries, headers and texts beside the file. */
const overheadBytesMax = 128 * 1024;

function refuse(path: string, message: string): GatewayError {
  return refusedFields('INVALID_REQUEST', [{ path, message }]);
}

/**
 * Reads a form.
 * @throws GatewayError INVALID_REQUEST naming the part, FILE_TOO_LARGE, or what `keep` throws
 */
export async function receiveForm<Kept>(
  ctx: Context,
  rules: FormRules<Kept>,
): Promise<ReceivedForm<Kept>> {
  try {
    if ((ctx.request.length ?? 0) > rules.bytesMax + overheadBytesMax) {
      throw new GatewayError('FILE_TOO_LARGE', `A file has at most ${rules.bytesMax} bytes here.`);
    }
    return await read(ctx, rules);
  } catch (error) {
    // The rest of the body is not worth reading, so the connection cannot be used again.
    ctx.set('Connection', 'close');
    throw error;
  }
}

function openParser(ctx: Context, bytesMax: number): InstanceType<typeof Busboy> {
  const contentType = ctx.get('content-type');
  try {
    const headers: BusboyHeaders = { 'content-type': contentType };
    return new Busboy({ headers, limits: { ...limits, fileSize: bytesMax } });
  } catch {
    throw refuse('(body)', 'is not a form that can be read');
  }
}

async function read<Kept>(ctx: Context, rules: FormRules<Kept>): Promise<ReceivedForm<Kept>> {
  const parser = openParser(ctx, rules.bytesMax);
  const texts = new Map<string, string>();
  const { promise: parsed, resolve, reject } = Promise.withResolvers<void>();
  const keeping: Promise<{ kept: Kept; name: string }>[] = [];

  parser.on('field', (name, value) => {
    // The parser cuts at these sizes: what has them may have had more.
    const cut = name.length >= limits.fieldNameSize || value.length >= limits.fieldSize;
    if (cut) reject(refuse(name, 'is too long'));
    else if (texts.has(name)) reject(refuse(name, 'is there twice'));
    else if (value.includes('\0') || !value.isWellFormed()) {
      reject(refuse(name, 'must not hold NUL characters or lone surrogates'));
    } else texts.set(name, value);
  });
  parser.on('file', (name, stream, fileName) => {
    // A form that breaks off tells its file late, when nobody may be reading it any more.
    stream.on('error', () => {});
    if (name !== rules.field) {
      stream.resume();
      reject(refuse(name, `the file is expected in the part \`${rules.field}\``));
      return;
    }
    const kept = rules.keep(stream).then((file) => ({ kept: file, name: fileName ?? '' }));
    kept.catch(reject);
    keeping.push(kept);
  });
  parser.once('filesLimit', () => reject(refuse(rules.field, 'there may be one file only')));
  parser.once('fieldsLimit', () => reject(refuse('(body)', 'has too many parts')));
  parser.once('partsLimit', () => reject(refuse('(body)', 'has too many parts')));
  parser.on('error', () => reject(refuse('(body)', 'is not a form that can be read')));
  parser.once('finish', () => resolve());
  ctx.req.once('close', () => {
    if (!ctx.req.complete) parser.destroy();
  });
  parser.once('close', () => reject(refuse('(body)', 'broke off')));
  ctx.req.pipe(parser);
  try {
    await parsed;
    const [file = null] = await Promise.all(keeping);
    return { texts: Object.fromEntries(texts), file };
  } finally {
    ctx.req.unpipe(parser);
  }
}
