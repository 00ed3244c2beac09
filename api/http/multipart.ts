/** Reads multipart/form-data bodies. Files are streamed to the spool, a temporary directory. */
import { Busboy, type BusboyFileStream, type BusboyHeaders } from '@fastify/busboy';
import { fieldError, GatewayError } from '../../domain/errors.ts';
import { toStorableText } from '../../domain/json.ts';
import type { RequestFiles } from '../../storage/inputs/recordings.ts';
import type { Context } from '../context.ts';
import { parseIdempotencyKey } from './request-headers.ts';
import { formTimeoutMs, startBodyTimers } from './connections.ts';
import { noteModel } from '../middleware/record-rejections.ts';
import { countBytes } from '../middleware/request-shares.ts';

/** Fields and files that a form may contain, and their limits. */
export interface FormRules<Stored> {
  /** Maximum number of files of each file field. A field `name[]` is treated as `name`. */
  files: Readonly<Record<string, number>>;
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
  /**
   * Values of the text fields by field name; a list if a field is repeated. A field `name[]` is
   * treated as `name`. An empty field counts as not sent.
   */
  texts: Record<string, string | string[]>;
  files: ReceivedFile<Stored>[];
}

const formLimits = {
  fields: 48,
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
    const bytesMax = rules.bytesMax * countFilesMax(rules) + overheadBytesMax;
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
    // Lets clients that read the response stop sending.
    ctx.set('Connection', 'close');
    throw error;
  }
}

function openParser(ctx: Context, rules: Limits): InstanceType<typeof Busboy> {
  const contentType = ctx.get('content-type');
  try {
    const headers: BusboyHeaders = { 'content-type': contentType };
    // One more than allowed, so that the excess file is received and rejected by its name.
    const files = countFilesMax(rules) + 1;
    const parts = formLimits.fields + files;
    const fieldSize = (rules.textBytesMax ?? defaultTextBytesMax) + 1;
    return new Busboy({
      headers,
      limits: { ...formLimits, files, parts, fieldSize, fileSize: rules.bytesMax },
    });
  } catch {
    throw createPartError('(body)', invalidForm);
  }
}

type Limits = Pick<FormRules<unknown>, 'bytesMax' | 'files' | 'textBytesMax'>;

const countFilesMax = ({ files }: Limits): number =>
  Object.values(files).reduce((sum, count) => sum + count, 0);

/** Strips the brackets from a field `name[]`. */
const stripBrackets = (name: string): string => (name.endsWith('[]') ? name.slice(0, -2) : name);

/**
 * Creates a collector of text fields. Calls `reject` for a field that is too long, and for a text in
 * place of a file.
 */
function createTextCollector(
  { files, textBytesMax = defaultTextBytesMax }: Limits,
  reject: (error: GatewayError) => void,
) {
  const texts = new Map<string, string | string[]>();
  return {
    texts,
    add: (part: string, value: string): void => {
      const name = stripBrackets(part);
      const earlier = texts.get(name);
      if (value === '') return;
      // The parser truncates a name at `fieldNameSize`, so a name of this length may be incomplete.
      if (part.length >= formLimits.fieldNameSize) {
        reject(
          createPartError(name, `must have a name shorter than ${formLimits.fieldNameSize} bytes`),
        );
      } else if (Buffer.byteLength(value) > textBytesMax) {
        reject(createPartError(name, `must have at most ${textBytesMax} bytes`));
      } else if (Object.hasOwn(files, name)) {
        reject(createPartError(name, 'must be a file, with a file name (received a text)'));
      } else if (value.includes('\0') || !value.isWellFormed()) {
        reject(createPartError(name, 'must not contain NUL characters or lone surrogates'));
      } else texts.set(name, earlier === undefined ? value : [earlier, value].flat());
    },
  };
}

function describeFilesMax(filesMax: number): string {
  return filesMax === 1 ? 'only one file is allowed' : `at most ${filesMax} files are allowed`;
}

/** Creates a function that counts the files of each field; it returns an error for one too many. */
function createFileCheck({ files }: Limits): (part: string) => GatewayError | null {
  const counts = new Map<string, number>();
  return (part) => {
    const field = stripBrackets(part);
    const count = (counts.get(field) ?? 0) + 1;
    counts.set(field, count);
    const countMax = Object.hasOwn(files, field) ? files[field] : undefined;
    if (countMax === undefined) {
      const names = Object.keys(files).join(', ');
      return createPartError(part, `unknown file field; allowed: ${names}`);
    }
    return count > countMax ? createPartError(field, describeFilesMax(countMax)) : null;
  };
}

async function parseForm<Stored>(
  ctx: Context,
  rules: FormRules<Stored>,
): Promise<ReceivedForm<Stored>> {
  const parser = openParser(ctx, rules);
  const { promise: parsed, resolve, reject } = Promise.withResolvers<void>();
  const { texts, add: addText } = createTextCollector(rules, reject);
  const storedFiles: Promise<ReceivedFile<Stored>>[] = [];
  const streams: BusboyFileStream[] = [];
  const checkFile = createFileCheck(rules);
  const rejectBody = (message: string): void => reject(createPartError('(body)', message));
  const rejectParts = (): void =>
    rejectBody(
      `must have at most ${formLimits.fields} text fields; ${describeFilesMax(countFilesMax(rules))}`,
    );

  parser.on('field', addText);
  parser.on('file', (part, stream, fileName) => {
    // If the form ends too early, this stream emits an error after its reader has stopped. Without
    // a listener, that error would end the process.
    stream.on('error', () => {});
    streams.push(stream);
    const field = stripBrackets(part);
    const error = checkFile(part);
    if (error) {
      stream.resume();
      reject(error);
      return;
    }
    const file = rules
      .store(stream, field)
      .then((stored) => ({ field, stored, name: toStorableText((fileName ?? '').slice(0, 255)) }));
    file.catch(reject);
    storedFiles.push(file);
  });
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
    noteModel(ctx, Object.fromEntries(texts));
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
