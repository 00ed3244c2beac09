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
export function bodyOf({ content, model, stream, maxTokens }: SentChat): string {
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

/** Reads the rest of a response. */
export async function textOf(answer: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of answer) text += String(chunk);
  return text;
}
