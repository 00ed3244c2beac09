/** Sends a chat over a raw socket, for tests that read slowly, disconnect or inspect every byte. */
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import type { TestCaller } from '../harness/gateway.ts';

/** The chat that is sent; streamed unless it says otherwise. */
export interface SentChat {
  caller: TestCaller;
  content: string;
  model?: string;
  stream?: boolean;
  maxTokens?: number;
}

/** The JSON of a request's body. */
export function bodyOf({ content, model, stream, maxTokens }: SentChat): string {
  return JSON.stringify({
    model: model ?? 'gpt-4o',
    messages: [{ role: 'user', content }],
    stream: stream ?? true,
    max_tokens: maxTokens ?? 1000,
  });
}

/** Sends it to the API at `base`, and hands over the raw answer. */
export async function openChat(
  base: string,
  sent: SentChat,
): Promise<{ answer: IncomingMessage; hangUp: () => void }> {
  const call = request(`${base}/api/v1/chat`, {
    method: 'POST',
    agent: false,
    headers: {
      authorization: `Bearer ${sent.caller.key}`,
      'content-type': 'application/json',
    },
  });
  call.on('error', () => {});
  call.end(bodyOf(sent));
  const [answer] = (await once(call, 'response')) as [IncomingMessage];
  answer.on('error', () => {});
  return { answer, hangUp: () => call.destroy() };
}

/** All that is left of an answer. */
export async function textOf(answer: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of answer) text += String(chunk);
  return text;
}
