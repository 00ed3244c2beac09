/** Telling a foreign server something: one POST behind the guard of outbound.ts, redirects unfollowed. */
import { request, type Dispatcher } from 'undici';
import { OutboundError } from './outbound-error.ts';

/** Something to tell a foreign server. */
export interface PostMessage {
  headers: Record<string, string>;
  body: string;
  /** Milliseconds for the whole exchange. */
  timeoutMs: number;
  /** The answer is read this far; the rest is not waited for. */
  answerBytesMax: number;
}

/** What the server said to it; a redirect is an answer like any other. */
export interface PostAnswer {
  status: number;
  retryAfter: string | string[] | undefined;
  text: string;
}

interface PostDeps {
  /** Parses a URL and refuses what could never be called. */
  check: (url: string) => URL;
  dispatcherOf: (url: URL) => Dispatcher;
}

/**
 * Makes the POST of a guard.
 * @throws OutboundError refused, unreachable
 */
export function createPost(
  deps: PostDeps,
): (url: string, message: PostMessage) => Promise<PostAnswer> {
  return async (spelled, message) => {
    const url = deps.check(spelled);
    const signal = AbortSignal.timeout(message.timeoutMs);
    try {
      const answer = await request(url, {
        dispatcher: deps.dispatcherOf(url),
        method: 'POST',
        headers: {
          ...message.headers,
          // No compression: a small answer must not become a large one.
          'accept-encoding': 'identity',
          'user-agent': 'studio-gateway',
        },
        body: message.body,
        signal,
      });
      const text = await firstText(answer, message.answerBytesMax);
      return { status: answer.statusCode, retryAfter: answer.headers['retry-after'], text };
    } catch (error) {
      if (error instanceof OutboundError) throw error;
      const why = signal.aborted
        ? `no answer within ${message.timeoutMs} ms`
        : 'the URL could not be reached';
      throw new OutboundError('unreachable', why);
    }
  };
}

/** The first of an answer as text; what breaks off behind its head is no failure. */
async function firstText(answer: Dispatcher.ResponseData, bytesMax: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      size += chunk.length;
      if (size >= bytesMax) break;
    }
  } catch {
    // The status has been said.
  }
  answer.body.on('error', () => {}).destroy();
  return Buffer.concat(chunks).subarray(0, bytesMax).toString('utf8');
}
