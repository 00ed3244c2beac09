/** Reads multipart/form-data bodies. Files are streamed to the spool, a temporary directory. */
import { Busboy, type BusboyFileStream, type BusboyHeaders } from '@fastify/busboy';
import { fieldError, GatewayError } from '../../domain/errors.ts';
import { toStorableText } from '../../domain/json.ts';
import type { RequestFiles } from '../../storage/inputs/request-files.ts';
import type { Context } from '../context.ts';
import { parseIdempotencyKey } from '../idempotency/idempotency-key.ts';
import { formTimeoutMs, startBodyTimers } from './body-timeouts.ts';
import { countBytes } from '../middleware/shares.ts';

/** Fields and files that a form may contain, and their limits. */
export interface FormRules<Stored> {
  /** Names of the file fields. A field `name[]` is treated as `name`. */
  fields: readonly string[];
  /** Maximum number of files in the form. Defaults to 1. */
  filesMax?: number;
  /** Maximum size of one file, in bytes. */
  bytesMax: number;
  /** Maximum size of one text field, in bytes. Defaults to 4,096. */
  textBytesMax?: number;
  /**
   * Checks the storage quota before the form is read.
   * @throws GatewayError STORAGE_QUOTA_EXCEEDED
   */
  throwIfOverQuota: RequestFiles['throwIfOverQuota'];
  /** Stores a file of the named field. If it throws, the request is rejected with that error. */
  store: (stream: BusboyFileStream, field: string) => Promise<Stored>;
}

interface ReceivedFile<Stored> {
  field: string;
  stored: Stored;
  /** File name that the client sent, at most 255 characters; empty if there is none. */
  name: string;
}

/** Parsed form. */
export interface ReceivedForm<Stored> {
  /** Values of the text fields by field name. Fields named `name[]` are ignored. */
  texts: Record<string, string>;
  files: ReceivedFile<Stored>[];
}

const formLimits = {
  fields: 16,
  fieldNameSize: 100,
  headerPairs: 20,
} as const;
const defaultTextBytesMax = 4096;
const invalidForm = 'must be a valid multipart/form-data body';
/** Maximum size of a form without its files, in bytes. */
const overheadBytesMax = 128 * 1024;

function createPartError(path: string, message: string): GatewayError {
  return fieldError('INVALID_REQUEST', path, message);
}

/**
 * Reads a form. Its bytes count toward the organization's spool budget until the request ends.
 * @throws GatewayError INVALID_REQUEST that names the part, FILE_TOO_LARGE, REQUEST_TIMEOUT if the
 * form arrives too slowly, 429 or SERVICE_UNAVAILABLE if the organization has its share of bytes, and errors of
 * `store`
 */
export async function receiveForm<Stored>(
  ctx: Context,
  rules: FormRules<Stored>,
): Promise<ReceivedForm<Stored>> {
  try {
    const bytesMax = rules.bytesMax * (rules.filesMax ?? 1) + overheadBytesMax;
    if ((ctx.request.length ?? 0) > bytesMax) {
      throw new GatewayError(
        'FILE_TOO_LARGE',
        `The file must have at most ${rules.bytesMax} bytes.`,
      );
    }
    const { organizationId } = ctx.state.caller;
    const [bytes, idempotencyKey] = [ctx.request.length ?? 0, parseIdempotencyKey(ctx)];
    await rules.throwIfOverQuota({ organizationId, bytes, idempotencyKey });
    return await parseForm(ctx, rules);
  } catch (error) {
    // The rest of the body is not read, so the connection cannot be used again.
    ctx.set('Connection', 'close');
    throw error;
  }
}

function openParser(
  ctx: Context,
  { bytesMax, filesMax: files = 1, textBytesMax: fieldSize = defaultTextBytesMax }: Limits,
): InstanceType<typeof Busboy> {
  const contentType = ctx.get('content-type');
  try {
    const headers: BusboyHeaders = { 'content-type': contentType };
    const parts = formLimits.fields + files;
    return new Busboy({
      headers,
      limits: { ...formLimits, files, parts, fieldSize: fieldSize + 1, fileSize: bytesMax },
    });
  } catch {
    throw createPartError('(body)', invalidForm);
  }
}

type Limits = Pick<FormRules<unknown>, 'bytesMax' | 'filesMax' | 'textBytesMax'>;

/** Creates a collector of text fields. Calls `reject` for a field that is too long or repeated. */
function createTextCollector(textBytesMax: number, reject: (error: GatewayError) => void) {
  const texts = new Map<string, string>();
  return {
    texts,
    add: (name: string, value: string): void => {
      // The parser truncates a name at `fieldNameSize`, so a name of this length may be incomplete.
      if (name.length >= formLimits.fieldNameSize) {
        reject(
          createPartError(name, `must have a name shorter than ${formLimits.fieldNameSize} bytes`),
        );
      } else if (Buffer.byteLength(value) > textBytesMax) {
        reject(createPartError(name, `must have at most ${textBytesMax} bytes`));
      } else if (texts.has(name)) reject(createPartError(name, 'must not be repeated'));
      else if (value.includes('\0') || !value.isWellFormed()) {
        reject(createPartError(name, 'must not contain NUL characters or lone surrogates'));
      } else if (!name.endsWith('[]')) texts.set(name, value);
    },
  };
}

function describeFilesMax({ filesMax = 1 }: FormRules<unknown>): string {
  return filesMax === 1 ? 'only one file is allowed' : `at most ${filesMax} files are allowed`;
}

async function parseForm<Stored>(
  ctx: Context,
  rules: FormRules<Stored>,
): Promise<ReceivedForm<Stored>> {
  const parser = openParser(ctx, rules);
  const { promise: parsed, resolve, reject } = Promise.withResolvers<void>();
  const { texts, add: addText } = createTextCollector(
    rules.textBytesMax ?? defaultTextBytesMax,
    reject,
  );
  const storedFiles: Promise<ReceivedFile<Stored>>[] = [];
  const streams: BusboyFileStream[] = [];
  const fields = rules.fields.join(', ');
  const rejectBody = (message: string): void => reject(createPartError('(body)', message));
  const rejectParts = (): void =>
    rejectBody(`must have at most ${formLimits.fields} text fields; ${describeFilesMax(rules)}`);

  parser.on('field', addText);
  parser.on('file', (part, stream, fileName) => {
    // If the form ends too early, this stream emits an error after its reader has stopped. Without
    // a listener, that error would end the process.
    stream.on('error', () => {});
    streams.push(stream);
    const field = part.endsWith('[]') ? part.slice(0, -2) : part;
    if (!rules.fields.includes(field)) {
      stream.resume();
      reject(createPartError(part, `unknown file field; allowed: ${fields}`));
      return;
    }
    const file = rules
      .store(stream, field)
      .then((stored) => ({ field, stored, name: toStorableText((fileName ?? '').slice(0, 255)) }));
    file.catch(reject);
    storedFiles.push(file);
  });
  parser.once('filesLimit', () => reject(createPartError(fields, describeFilesMax(rules))));
  parser.once('fieldsLimit', rejectParts);
  parser.once('partsLimit', rejectParts);
  parser.on('error', () => rejectBody(invalidForm));
  parser.once('finish', () => resolve());
  ctx.req.once('close', () => {
    if (!ctx.req.complete) parser.destroy();
  });
  parser.once('close', () => rejectBody('ended before the form was complete'));
  const timers = startBodyTimers(reject, formTimeoutMs);
  const countChunk = (chunk: Buffer): void => {
    timers.addBytes(chunk.length);
    try {
      countBytes(ctx, { kind: 'spool', bytes: chunk.length });
    } catch (error) {
      reject(error);
    }
  };
  ctx.req.on('data', countChunk);
  ctx.req.pipe(parser);
  try {
    await parsed;
    const files = await Promise.all(storedFiles);
    return { texts: Object.fromEntries(texts), files };
  } catch (error) {
    // Aborts the files that are still being written, so that they are removed from the spool.
    for (const stream of streams) stream.destroy();
    await Promise.allSettled(storedFiles);
    throw error;
  } finally {
    timers.stop();
    ctx.req.off('data', countChunk);
    ctx.req.unpipe(parser);
  }
}
