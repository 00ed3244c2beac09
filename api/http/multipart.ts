/** multipart/form-data bodies: short text fields, and files, which are streamed to the spool. */
import { Busboy, type BusboyFileStream, type BusboyHeaders } from '@fastify/busboy';
import { fieldError, GatewayError } from '../../domain/errors.ts';
import type { RequestFiles } from '../../storage/inputs/request-files.ts';
import type { Context } from '../context.ts';
import { idempotencyKeyOf } from '../idempotency/idempotency-key.ts';
import { filesMs, watchArrival } from './arrival.ts';
import { holdBytes } from '../middleware/byte-limits.ts';

/** Fields and files that a form may contain, and their limits. */
export interface FormRules<Kept> {
  /** Names of the parts that are files; `name[]` counts as `name`. */
  fields: readonly string[];
  /** Highest number of files of the form; absent: 1. */
  filesMax?: number;
  bytesMax: number;
  /** Size limit of one text field, in bytes; absent: 4,096. */
  textBytesMax?: number;
  /** Checks the storage quota for the form. @throws GatewayError STORAGE_QUOTA_EXCEEDED */
  requireRoom: RequestFiles['requireRoom'];
  /** Receives a file and its field; an error rejects the request. */
  keep: (stream: BusboyFileStream, field: string) => Promise<Kept>;
}

interface ReceivedFile<Kept> {
  field: string;
  kept: Kept;
  name: string;
}

/** Form that was read. */
export interface ReceivedForm<Kept> {
  /** Text fields by name, without those named `name[]`, which no endpoint uses. */
  texts: Record<string, string>;
  files: ReceivedFile<Kept>[];
}

const limits = {
  fields: 16,
  fieldNameSize: 100,
  headerPairs: 20,
} as const;
const textBytesMaxUsual = 4096;
const invalidForm = 'must be a valid multipart/form-data body';
/** Highest number of bytes of a form in addition to its files. */
const overheadBytesMax = 128 * 1024;

function refuse(path: string, message: string): GatewayError {
  return fieldError('INVALID_REQUEST', path, message);
}

/**
 * Reads a form. Its bytes count as spool bytes of the organization until the request is finished.
 * @throws GatewayError INVALID_REQUEST naming the part, FILE_TOO_LARGE, REQUEST_TIMEOUT if it
 * arrives too slowly, 429 or SERVICE_UNAVAILABLE if too many bytes are held, and errors of `keep`
 */
export async function receiveForm<Kept>(
  ctx: Context,
  rules: FormRules<Kept>,
): Promise<ReceivedForm<Kept>> {
  try {
    const bytesMax = rules.bytesMax * (rules.filesMax ?? 1) + overheadBytesMax;
    if ((ctx.request.length ?? 0) > bytesMax) {
      throw new GatewayError(
        'FILE_TOO_LARGE',
        `The file must have at most ${rules.bytesMax} bytes.`,
      );
    }
    const { organizationId } = ctx.state.caller;
    const [bytes, idempotencyKey] = [ctx.request.length ?? 0, idempotencyKeyOf(ctx)];
    await rules.requireRoom({ organizationId, bytes, idempotencyKey });
    return await read(ctx, rules);
  } catch (error) {
    // The rest of the body is not read, so the connection cannot be used again.
    ctx.set('Connection', 'close');
    throw error;
  }
}

function openParser(
  ctx: Context,
  { bytesMax, filesMax: files = 1, textBytesMax: fieldSize = textBytesMaxUsual }: Limits,
): InstanceType<typeof Busboy> {
  const contentType = ctx.get('content-type');
  try {
    const headers: BusboyHeaders = { 'content-type': contentType };
    const parts = limits.fields + files;
    return new Busboy({
      headers,
      limits: { ...limits, files, parts, fieldSize: fieldSize + 1, fileSize: bytesMax },
    });
  } catch {
    throw refuse('(body)', invalidForm);
  }
}

type Limits = Pick<FormRules<unknown>, 'bytesMax' | 'filesMax' | 'textBytesMax'>;

/** Collects text fields; rejects a field that is too long or repeated. */
function collectTexts(textBytesMax: number, reject: (refusal: GatewayError) => void) {
  const texts = new Map<string, string>();
  return {
    texts,
    take: (name: string, value: string): void => {
      // The parser truncates longer names at this size, and longer values one byte after their
      // limit.
      if (name.length >= limits.fieldNameSize) {
        reject(refuse(name, `must have a name of less than ${limits.fieldNameSize} bytes`));
      } else if (Buffer.byteLength(value) > textBytesMax) {
        reject(refuse(name, `must have at most ${textBytesMax} bytes`));
      } else if (texts.has(name)) reject(refuse(name, 'must not be repeated'));
      else if (value.includes('\0') || !value.isWellFormed()) {
        reject(refuse(name, 'must not contain NUL characters or lone surrogates'));
      } else if (!name.endsWith('[]')) texts.set(name, value);
    },
  };
}

async function read<Kept>(ctx: Context, rules: FormRules<Kept>): Promise<ReceivedForm<Kept>> {
  const parser = openParser(ctx, rules);
  const { promise: parsed, resolve, reject } = Promise.withResolvers<void>();
  const { texts, take } = collectTexts(rules.textBytesMax ?? textBytesMaxUsual, reject);
  const keeping: Promise<ReceivedFile<Kept>>[] = [];
  const streams: BusboyFileStream[] = [];
  const fields = rules.fields.join(', ');
  const filesMax = rules.filesMax ?? 1;
  const tooMany =
    filesMax === 1 ? 'only one file is allowed' : `at most ${filesMax} files are allowed`;

  parser.on('field', take);
  parser.on('file', (part, stream, fileName) => {
    // If a form ends too early, its file streams emit an error later, when nothing listens to them
    // any more.
    stream.on('error', () => {});
    streams.push(stream);
    const field = part.endsWith('[]') ? part.slice(0, -2) : part;
    if (!rules.fields.includes(field)) {
      stream.resume();
      reject(refuse(part, `unknown file field; allowed: ${fields}`));
      return;
    }
    const kept = rules
      .keep(stream, field)
      .then((file) => ({ field, kept: file, name: fileName ?? '' }));
    kept.catch(reject);
    keeping.push(kept);
  });
  parser.once('filesLimit', () => reject(refuse(fields, tooMany)));
  parser.once('fieldsLimit', () => reject(refuse('(body)', 'has too many parts')));
  parser.once('partsLimit', () => reject(refuse('(body)', 'has too many parts')));
  parser.on('error', () => reject(refuse('(body)', invalidForm)));
  parser.once('finish', () => resolve());
  ctx.req.once('close', () => {
    if (!ctx.req.complete) parser.destroy();
  });
  parser.once('close', () => reject(refuse('(body)', 'ended before the form was complete')));
  const arrival = watchArrival(reject, filesMs);
  const count = (chunk: Buffer): void => {
    arrival.count(chunk.length);
    try {
      holdBytes(ctx, { kind: 'spool', bytes: chunk.length });
    } catch (error) {
      reject(error);
    }
  };
  ctx.req.on('data', count);
  ctx.req.pipe(parser);
  try {
    await parsed;
    const files = await Promise.all(keeping);
    return { texts: Object.fromEntries(texts), files };
  } catch (error) {
    // Ends the files that are still being written, so that they are removed from the spool.
    for (const stream of streams) stream.destroy();
    await Promise.allSettled(keeping);
    throw error;
  } finally {
    arrival.end();
    ctx.req.off('data', count);
    ctx.req.unpipe(parser);
  }
}
