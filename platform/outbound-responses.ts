/** Bodies of responses from foreign servers, with limits of their size. */
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { OutboundError } from './outbound-addresses.ts';

/**
 * Returns the start of a response body as text. If the body ends early with an error, the text is
 * the part that arrived.
 */
export async function firstText(
  answer: Dispatcher.ResponseData,
  bytesMax: number,
): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      size += chunk.length;
      if (size >= bytesMax) break;
    }
  } catch {
    // The error is ignored, because the status has already arrived.
  }
  discard(answer);
  return Buffer.concat(chunks).subarray(0, bytesMax).toString('utf8');
}

/** Destroys a response that is not read, and ignores its errors. */
export function discard(answer: Dispatcher.ResponseData): void {
  answer.body.on('error', () => {}).destroy();
}

/**
 * Returns the body of a successful response; the stream fails with `too_large` beyond the limit.
 * @throws OutboundError status, broken, too_large
 */
export function admit(answer: Dispatcher.ResponseData, bytesMax: number): Readable {
  const fail = (error: OutboundError): never => {
    discard(answer);
    throw error;
  };
  if (answer.statusCode !== 200) {
    fail(new OutboundError('status', `the URL answered ${answer.statusCode}`, answer.statusCode));
  }
  const encoding = answer.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity') {
    fail(new OutboundError('broken', 'the answer is compressed although that was declined'));
  }
  const length = answer.headers['content-length'];
  if (typeof length === 'string' && Number(length) > bytesMax) {
    fail(new OutboundError('too_large', `the file has more than ${bytesMax} bytes`));
  }
  return Readable.from(capped(answer.body, bytesMax), { objectMode: false });
}

async function* capped(source: Readable, bytesMax: number): AsyncGenerator<Buffer> {
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
    throw new OutboundError('broken', 'the URL broke off');
  }
}
