/** Sends a chat over a raw socket, for tests that read slowly, disconnect or inspect every byte. */
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import type { TestCaller } from '../harness/gateway.ts';

/** Chat to send; streamed unless `stream` is false. */
export interface SentChat {
  caller: TestCaller;
  content: string;
  model?: string;
  stream?: boolean;
  maxTokens?: number;
}

/** Returns the JSON of a request's body. */
export function formatBody({ content, model, stream, maxTokens }: SentChat): string {
  return JSON.stringify({
    model: model ?? 'gpt-4o',
    messages: [{ role: 'user', content }],
    stream: stream ?? true,
    max_tokens: maxTokens ?? 1000,
  });
}

/** Sends a chat to the API at `base`, and returns the raw response. */
export async function openChat(
  base: string,
  sent: SentChat,
): Promise<{ answer: IncomingMessage; hangUp: () => void }> {
  const call = request(`${base}/api/v1/chat`, {
    method: 'POST',
    agent: false,
    headers: { authorization: `Bearer ${sent.caller.key}`, 'content-type': 'application/json' },
  });
  call.on('error', () => {});
  call.end(formatBody(sent));
  const [answer] = (await once(call, 'response')) as [IncomingMessage];
  answer.on('error', () => {});
  return { answer, hangUp: () => call.destroy() };
}

/** Reads the rest of a response. */
export async function readRest(answer: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of answer) text += String(chunk);
  return text;
}

/** Returns the number of deltas in the text of a stream. */
export const deltasIn = (text: string): number => text.split('"type":"delta"').length - 1;

/** Reads a stream until this many deltas have arrived, and returns its text. */
export async function readDeltas(answer: IncomingMessage, count: number): Promise<string> {
  let text = '';
  for await (const chunk of answer.iterator({ destroyOnReturn: false })) {
    text += String(chunk);
    if (deltasIn(text) >= count) break;
  }
  return text;
}

/** A chat for `fetch`. */
export interface PostedChat {
  body: object;
  /** Path below /api/v1. */
  path?: string;
  /** URL of another API than that of the gateway. */
  base?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Posts a chat and returns the response, whose body is not read. */
export function postChat(
  { url }: { url: string },
  { key }: { key: string },
  { body, path = '/chat', base = url, headers, signal }: PostedChat,
): Promise<Response> {
  return fetch(`${base}/api/v1${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  });
}
