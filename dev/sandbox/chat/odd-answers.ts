/** Plays an answer that differs from the provider's documentation, byte by byte as it is written in its table. */
import { gzipSync } from 'node:zlib';
import type { Exchange } from '../http.ts';

/** Bodies of the responses to a streamed request and to one that is not streamed. */
export interface OddAnswer {
  stream?: string;
  whole?: string;
  /** Whether the body is compressed although the request forbids it. */
  isCompressed?: true;
  /** Whether the connection stays open after the last byte. */
  staysOpen?: true;
}

/** Formats a server-sent event without a name. */
export function event(data: unknown): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

/** Sends an answer. Returns false if there is none for this kind of request. */
export function playAnswer(
  { response }: Exchange,
  answer: OddAnswer | undefined,
  isStream: boolean,
): boolean {
  const body = isStream ? answer?.stream : answer?.whole;
  if (!answer || body === undefined) return false;
  response.writeHead(200, {
    'Content-Type': isStream ? 'text/event-stream' : 'application/json',
    ...(answer.isCompressed && { 'Content-Encoding': 'gzip' }),
  });
  const bytes = answer.isCompressed ? gzipSync(body) : body;
  if (answer.staysOpen) response.write(bytes);
  else response.end(bytes);
  return true;
}
