/** Reads response bodies from foreign servers, up to a maximum size. */
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { OutboundError } from './outbound-addresses.ts';

/** Returns the start of a response body as text, or what arrived before the response failed. */
export async function readStart(
  response: Dispatcher.ResponseData,
  bytesMax: number,
): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of response.body as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      size += chunk.length;
      if (size >= bytesMax) break;
    }
  } catch {
    // An error is ignored, because the status of the response has already arrived.
  }
  discard(response);
  return Buffer.concat(chunks).subarray(0, bytesMax).toString('utf8');
}

/** Discards a response without reading it, and ignores its errors. */
export function discard(response: Dispatcher.ResponseData): void {
  response.body.on('error', () => {}).destroy();
}

/**
 * Returns the body of a successful response as a stream. The stream fails with `too_large` after
 * more than `bytesMax` bytes.
 * @throws OutboundError status, broken, too_large
 */
export function openBody(response: Dispatcher.ResponseData, bytesMax: number): Readable {
  const fail = (error: OutboundError): never => {
    discard(response);
    throw error;
  };
  if (response.statusCode !== 200) {
    fail(
      new OutboundError(
        'status',
        `the URL responded with status ${response.statusCode}`,
        response.statusCode,
      ),
    );
  }
  const encoding = response.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity') {
    fail(new OutboundError('broken', 'the response is compressed, which the request excluded'));
  }
  const length = response.headers['content-length'];
  if (typeof length === 'string' && Number(length) > bytesMax) {
    fail(new OutboundError('too_large', `the file has more than ${bytesMax} bytes`));
  }
  return Readable.from(limitBytes(response.body, bytesMax), { objectMode: false });
}

async function* limitBytes(source: Readable, bytesMax: number): AsyncGenerator<Buffer> {
  let size = 0;
  try {
    for await (const chunk of source as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > bytesMax) {
        throw new OutboundError('too_large', `the file has more than ${bytesMax} bytes`);
      }
      yield chunk;
    }
  } catch (error) {
    if (error instanceof OutboundError) throw error;
    throw new OutboundError('broken', 'the response ended early');
  }
}
