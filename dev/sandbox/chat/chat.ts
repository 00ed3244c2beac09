/** Chat providers of the sandbox: OpenAI's protocol under `/chat-openai/v1`, Anthropic's under `/chat-anthropic`. */
import type { Counters } from '../counters.ts';
import {
  findFault,
  parseDurationMs,
  retryAfterHeader,
  type Fault,
  type FaultBook,
} from '../faults.ts';
import { parseJson, readText, sendJson, type Exchange, type Route } from '../http.ts';
import { anthropicError, readAnthropic } from './anthropic-chat.ts';
import { readEmbeddings, type ParsedEmbeddings } from './embeddings.ts';
import { oddAnthropicAnswers } from './odd-anthropic-answers.ts';
import { playAnswer, type OddAnswer } from './odd-answers.ts';
import { oddOpenaiAnswers } from './odd-openai-answers.ts';
import { openaiError, readOpenai } from './openai-chat.ts';
import { PromptCache } from './prompt-cache.ts';
import { writeScript, type ParsedRequest } from './script.ts';
import { streamScript } from './stream.ts';

interface ChatOptions {
  apiKey: string;
  faults: FaultBook;
  counters: Counters;
}

interface Protocol {
  name: string;
  authorized: (exchange: Exchange, apiKey: string) => boolean;
  /** Parses a request; returns an error message if it is invalid. */
  read: (body: unknown, cache: PromptCache) => ParsedRequest | ParsedEmbeddings | string;
  error: (status: number, message: string) => unknown;
  oddAnswers: Readonly<Record<string, OddAnswer>>;
}

const openai: Protocol = {
  name: 'chat-openai',
  authorized: ({ request }, apiKey) => request.headers.authorization === `Bearer ${apiKey}`,
  read: readOpenai,
  error: openaiError,
  oddAnswers: oddOpenaiAnswers,
};

const embeddings: Protocol = { ...openai, read: readEmbeddings };

const anthropic: Protocol = {
  name: 'chat-anthropic',
  authorized: ({ request }, apiKey) =>
    request.headers['x-api-key'] === apiKey &&
    request.headers['anthropic-version'] === '2023-06-01',
  read: readAnthropic,
  error: anthropicError,
  oddAnswers: oddAnthropicAnswers,
};

/**
 * Applies the faults that end a request.
 * @returns true if a fault responded or closed the connection
 */
async function interrupt(
  exchange: Exchange,
  protocol: Protocol,
  { book, faults }: { book: FaultBook; faults: readonly Fault[] },
): Promise<boolean> {
  const failed = book.takeFault(faults, 'fail') ?? book.takeFault(faults, 'submit');
  if (failed) {
    await waitSlowly(book, faults);
    const status = Number(failed.argument || 500);
    sendJson(exchange, {
      status,
      body: protocol.error(status, failed.options['message'] ?? `Sandbox says ${status}`),
      headers: retryAfterHeader(failed),
    });
    return true;
  }
  if (!book.takeFault(faults, 'reset-before-accept')) {
    return book.breakResponse(exchange, faults, '{"id":"chatcmpl-1","choi');
  }
  exchange.request.socket.destroy();
  return true;
}

/** Waits for the time of the fault `slow`. */
async function waitSlowly(book: FaultBook, faults: readonly Fault[]): Promise<void> {
  const slow = findFault(faults, 'slow');
  if (slow) await book.wait(parseDurationMs(slow.argument, 0), Date.now());
}

/** Maximum number of logged requests; tests read them to check what the gateway sends. */
const loggedMax = 200;

/** Returns the chat routes of both protocols, and the route that lists the logged requests. */
export function chatRoutes({ apiKey, faults: book, counters }: ChatOptions): Route[] {
  const logged: { protocol: string; text: string }[] = [];
  const cache = new PromptCache();

  async function answer(
    exchange: Exchange,
    {
      protocol,
      parsed,
      faults,
    }: { protocol: Protocol; parsed: ParsedRequest | ParsedEmbeddings; faults: readonly Fault[] },
  ): Promise<void> {
    const arrivedAtMs = Date.now();
    counters.chatCalls += 1;
    if (!('conversation' in parsed)) {
      await waitSlowly(book, faults);
      sendJson(exchange, { status: 200, body: parsed.answer(faults) });
      return;
    }
    const script = writeScript(parsed.conversation, faults);
    exchange.response.once('close', () => {
      if (!exchange.response.writableFinished) counters.chatCallsLeft += 1;
    });
    if (script.latencyMs > 0) await book.wait(script.latencyMs, arrivedAtMs);
    const odd = findFault(faults, 'answer');
    if (odd && playAnswer(exchange, protocol.oddAnswers[odd.argument], parsed.stream)) return;
    if (parsed.stream) {
      await streamScript(exchange, script, parsed.events(script));
    } else {
      sendJson(exchange, { status: 200, body: parsed.answer(script) });
    }
  }

  const handle = (protocol: Protocol) => async (exchange: Exchange) => {
    if (!protocol.authorized(exchange, apiKey)) {
      counters.unauthorized += 1;
      sendJson(exchange, { status: 401, body: protocol.error(401, 'Incorrect API key') });
      return;
    }
    const text = await readText(exchange);
    const body = parseJson(text);
    const parsed = protocol.read(body, cache);
    logged.push({ protocol: protocol.name, text });
    if (logged.length > loggedMax) logged.shift();
    if (typeof parsed === 'string') {
      counters.chatCallsRejected += 1;
      sendJson(exchange, { status: 400, body: protocol.error(400, parsed) });
      return;
    }
    const { model, question } = 'conversation' in parsed ? parsed.conversation : parsed;
    const faults = book.forSubmit(`${protocol.name}/${model}`, body, question);
    if (await interrupt(exchange, protocol, { book, faults })) counters.chatCallsRejected += 1;
    else await answer(exchange, { protocol, parsed, faults });
  };

  return [
    ['POST', /^\/chat-openai\/v1\/chat\/completions$/, handle(openai)],
    ['POST', /^\/chat-openai\/v1\/embeddings$/, handle(embeddings)],
    ['POST', /^\/chat-anthropic\/v1\/messages$/, handle(anthropic)],
    [
      'GET',
      /^\/_sandbox\/chat-requests$/,
      (exchange) => {
        const match = exchange.url.searchParams.get('match') ?? '';
        const found = logged.filter(({ text }) => text.includes(match));
        sendJson(exchange, { status: 200, body: found });
      },
    ],
  ];
}
