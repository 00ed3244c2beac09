/** Chat providers of the sandbox: OpenAI under `/chat-openai/v1`, Anthropic under `/chat-anthropic`. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Counters } from '../counters.ts';
import { retryAfterOf, type Fault, type FaultBook } from '../faults.ts';
import { answerJson, readJson, type Exchange, type Route } from '../http.ts';
import { anthropicError, readAnthropic } from './anthropic-chat.ts';
import { openaiError, readOpenai } from './openai-chat.ts';
import { PromptCache } from './prompt-cache.ts';
import { writeScript, type Told } from './script.ts';
import { streamScript } from './stream.ts';

interface ChatOptions {
  apiKey: string;
  faults: FaultBook;
  counters: Counters;
}

interface Protocol {
  name: string;
  authorized: (exchange: Exchange, apiKey: string) => boolean;
  /** Reads a request; a string is the reason for rejecting it. */
  read: (body: unknown, cache: PromptCache) => Told | string;
  error: (status: number, message: string) => unknown;
}

const openai: Protocol = {
  name: 'chat-openai',
  authorized: ({ request }, apiKey) => request.headers.authorization === `Bearer ${apiKey}`,
  read: readOpenai,
  error: openaiError,
};

const anthropic: Protocol = {
  name: 'chat-anthropic',
  authorized: ({ request }, apiKey) =>
    request.headers['x-api-key'] === apiKey &&
    request.headers['anthropic-version'] === '2023-06-01',
  read: readAnthropic,
  error: anthropicError,
};

/** @returns true when the request was answered, or cut off, by a fault. */
function interrupt(
  exchange: Exchange,
  protocol: Protocol,
  { book, faults }: { book: FaultBook; faults: readonly Fault[] },
): boolean {
  const failed = book.struck(faults, 'fail') ?? book.struck(faults, 'submit');
  if (failed) {
    const status = Number(failed.argument || 500);
    answerJson(exchange, {
      status,
      body: protocol.error(status, failed.options['message'] ?? `Sandbox says ${status}`),
      headers: retryAfterOf(failed),
    });
    return true;
  }
  if (!book.struck(faults, 'reset-before-accept')) {
    return book.breakAnswer(exchange, faults, '{"id":"chatcmpl-1","choi');
  }
  exchange.request.socket.destroy();
  return true;
}

/** The newest requests, as they came: the witness of what the gateway sends. */
const witnessedMax = 200;

/** The routes of both protocols, and of the witness. */
export function chatRoutes({ apiKey, faults: book, counters }: ChatOptions): Route[] {
  const witnessed: { protocol: string; body: unknown }[] = [];
  const cache = new PromptCache();

  async function answer(exchange: Exchange, told: Told, faults: readonly Fault[]): Promise<void> {
    const script = writeScript(told.talk, faults);
    counters.chatCalls += 1;
    exchange.response.once('close', () => {
      if (!exchange.response.writableFinished) counters.chatCallsLeft += 1;
    });
    if (script.latencyMs > 0) await sleep(script.latencyMs);
    if (told.stream) {
      await streamScript(exchange, script, told.wording(script));
    } else {
      answerJson(exchange, { status: 200, body: told.answer(script) });
    }
  }

  const handle = (protocol: Protocol) => async (exchange: Exchange) => {
    if (!protocol.authorized(exchange, apiKey)) {
      counters.unauthorized += 1;
      answerJson(exchange, { status: 401, body: protocol.error(401, 'Incorrect API key') });
      return;
    }
    const body = await readJson(exchange);
    const told = protocol.read(body, cache);
    witnessed.push({ protocol: protocol.name, body });
    if (witnessed.length > witnessedMax) witnessed.shift();
    if (typeof told === 'string') {
      counters.chatCallsRefused += 1;
      answerJson(exchange, { status: 400, body: protocol.error(400, told) });
      return;
    }
    const { model, question } = told.talk;
    const faults = book.forSubmit(`${protocol.name}/${model}`, body, question);
    if (interrupt(exchange, protocol, { book, faults })) counters.chatCallsRefused += 1;
    else await answer(exchange, told, faults);
  };

  return [
    ['POST', /^\/chat-openai\/v1\/chat\/completions$/, handle(openai)],
    ['POST', /^\/chat-anthropic\/v1\/messages$/, handle(anthropic)],
    [
      'GET',
      /^\/_sandbox\/chat-requests$/,
      (exchange) => {
        const match = exchange.url.searchParams.get('match') ?? '';
        const found = witnessed.filter(({ body }) => JSON.stringify(body)?.includes(match));
        answerJson(exchange, { status: 200, body: found });
      },
    ],
  ];
}
