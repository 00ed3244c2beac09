/**
 * Reads bodies of newline-delimited JSON. A body is first received on the disk of this process, so
 * that it is never in memory as a whole, and that a client that hangs up has started nothing.
 */
import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { fieldError, GatewayError, invalidFieldsError } from '../../domain/errors.ts';
import { fillSpoolFile } from '../../storage/spool.ts';
import type { Storage } from '../../storage/storage.ts';
import type { Context } from '../context.ts';
import { countBytes } from '../middleware/request-shares.ts';
import { exactFields } from '../../chat/formats/chat-fields.ts';
import { formTimeoutMs, readChunks } from './connections.ts';
import { parseJsonLine } from './json-body.ts';

/** Maximum size of a body or a file, and of a line, in bytes. */
export const bodyBytesMax = 64 * 1024 * 1024;
const lineBytesMax = 1024 * 1024;
/** Maximum number of lines, including empty ones. */
const linesMax = 20_000;

const linesType = /^\s*application\/(?:x-ndjson|ndjson|jsonl|x-jsonlines)\s*(?:;|$)/i;

/** Returns whether a request has a body of newline-delimited JSON. */
export const isJsonLines = (ctx: Context): boolean => linesType.test(ctx.get('content-type'));

/** Line of a body: its number and its JSON object, or its error. */
export type JsonLine = { line: number } & (
  | { value: Record<string, unknown> }
  | { error: GatewayError }
);

/**
 * Receives a body and passes its lines to `read`. Empty lines are omitted.
 * @throws GatewayError INVALID_REQUEST if there are more than `linesMax` lines; PAYLOAD_TOO_LARGE, REQUEST_TIMEOUT, UNSUPPORTED_MEDIA_TYPE, CANCELED if the
 * client hangs up, and the errors of `read`
 */
export async function readJsonLines<Result>(
  ctx: Context,
  storage: Pick<Storage, 'spoolPath'>,
  read: (lines: AsyncIterable<JsonLine>) => Promise<Result>,
): Promise<Result> {
  const encoding = ctx.headers['content-encoding'];
  if (encoding && encoding !== 'identity') {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'Compressed request bodies are not accepted.');
  }
  const path = await storage.spoolPath();
  try {
    await fillSpoolFile(path, () => receive(ctx)).catch((error: unknown) => {
      ctx.set('Connection', 'close');
      if (error instanceof GatewayError || ctx.req.complete) throw error;
      throw new GatewayError('CANCELED', 'The client closed the connection.');
    });
    return await read(parseLines(createReadStream(path)));
  } finally {
    await rm(path, { force: true });
  }
}

async function* receive(ctx: Context): AsyncGenerator<Buffer> {
  let size = Number(ctx.headers['content-length'] ?? 0);
  const checkSize = (): void => {
    if (size > bodyBytesMax)
      throw new GatewayError('PAYLOAD_TOO_LARGE', `The body has more than ${bodyBytesMax} bytes.`);
  };
  checkSize();
  size = 0;
  for await (const chunk of readChunks(ctx.req, formTimeoutMs)) {
    size += chunk.length;
    checkSize();
    countBytes(ctx, { kind: 'spool', bytes: chunk.length });
    yield chunk;
  }
  if (!ctx.req.complete) throw new GatewayError('CANCELED', 'The client closed the connection.');
}

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
const newline = 10;

/** Parses lines, except empty ones. @throws GatewayError INVALID_REQUEST if there are more than `linesMax` lines */
export async function* parseLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<JsonLine> {
  let number = 0;
  for await (const line of splitLines(chunks)) {
    number += 1;
    if (number > linesMax) {
      const message = `must have at most ${linesMax} lines, including empty ones`;
      throw fieldError('INVALID_REQUEST', '(body)', message);
    }
    const bytes =
      number === 1 && line?.subarray(0, 3).equals(byteOrderMark) ? line.subarray(3) : line;
    if (bytes && isBlank(bytes)) continue;
    yield parseLine(bytes, number);
  }
}

const isBlank = (bytes: Buffer): boolean =>
  bytes.every((byte) => byte === 32 || byte === 9 || byte === 13);

function parseLine(bytes: Buffer | null, line: number): JsonLine {
  const path = `(line ${line})`;
  if (!bytes) {
    const message = `must have at most ${lineBytesMax} bytes`;
    return { line, error: invalidFieldsError('INVALID_REQUEST', [{ path, message }]) };
  }
  try {
    return { line, value: parseJsonLine(bytes, exactFields) };
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    const details = (error.details ?? []).map((detail) =>
      detail.path === '(body)' ? { path, message: detail.message } : detail,
    );
    return { line, error: invalidFieldsError(error.code, details) };
  }
}

/** Yields lines without their ends; null for a line that is too long. */
async function* splitLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer | null> {
  let parts: Buffer[] = [];
  let size = 0;
  const take = (): Buffer | null => {
    const line = size > lineBytesMax ? null : Buffer.concat(parts);
    parts = [];
    size = 0;
    return line;
  };
  const add = (part: Buffer): void => {
    size += part.length;
    if (size <= lineBytesMax) parts.push(part);
    else parts = [];
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      add(chunk.subarray(start, end));
      yield take();
      start = end + 1;
    }
    add(chunk.subarray(start));
  }
  if (size > 0) yield take();
}
