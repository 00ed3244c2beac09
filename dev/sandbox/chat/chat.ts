/** Chat providers of the sandbox: OpenAI under `/chat-openai/v1`, Anthropic under `/chat-anthropic`. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Counters } from '../counters.ts';
import { findFault, type Fault, type FaultBook } from '../faults.ts';
import { answerJson, readJson, type Exchange, type Route } from '../http.ts';
import {
  anthropicAnswer,
  anthropicError,
  anthropicWording,
  readAnthropic,
} from './anthropic-chat.ts';
import { openaiAnswer, openaiError, openaiWording, readOpenai } from './openai-chat.ts';
import { writeScript, type Conversation, type Script } from './script.ts';
import { streamScript, type Wording } from './stream.ts';

interface ChatOptions {
  apiKey: string;
  faults: FaultBook;
  counters: Counters;
}

/** A request that a protocol has read. */
interface Told {
  talk: Conversation;
  stream: boolean;
  answer: (script: Script) => unknown;
  wording: (script: Script) => Wording;
}

interface Protocol {
  name: string;
  authorized: (exchange: Exchange, apiKey: string) => boolean;
  read: (body: unknown) => Told | string;
  error: (status: number, message: string) => unknown;
}

const openai: Protocol = {
  name: 'chat-openai',
  authorized: ({ request }, apiKey) => request.headers.authorization === `Bearer ${apiKey}`,
  read(body) {
    const told = readOpenai(body);
    if (typeof told === 'string') return told;
    return {
      ...told,
      answer: (script) => openaiAnswer(told, script),
      wording: (script) => openaiWording(told, script),
    };
  },
  error: openaiError,
};

const anthropic: Protocol = {
  name: 'chat-anthropic',
  authorized: ({ request }, apiKey) =>
    request.headers['x-api-key'] === apiKey &&
    request.headers['anthropic-version'] === '2023-06-01',
  read(body) {
    const told = readAnthropic(body);
    if (typeof told === 'string') return told;
    return {
      ...told,
      answer: (script) => anthropicAnswer(told.talk, script),
      wording: (script) => anthropicWording(told.talk, script),
    };
  },
  error: anthropicError,
};

/** The fault of this name, if it strikes now. */
type Struck = (name: Fault['name']) => Fault | undefined;

/** @returns true when the request was answered, or cut off, by a fault. */
function interrupt(exchange: Exchange, protocol: Protocol, struck: Struck): boolean {
  const failed = struck('fail') ?? struck('submit');
  if (failed) {
    const status = Number(failed.argument || 500);
    const after = failed.options['retry-after'];
    answerJson(exchange, {
      status,
      body: protocol.error(status, failed.options['message'] ?? `Sandbox says ${status}`),
      ...(after !== undefined && { headers: { 'Retry-After': after } }),
    });
    return true;
  }
  if (struck('reset-before-accept') || struck('reset-after-accept')) {
    exchange.request.socket.destroy();
    return true;
  }
  if (struck('hang-submit')) return true;
  if (struck('malformed-submit')) {
    exchange.response.writeHead(200, { 'Content-Type': 'application/json' });
    exchange.response.end('{"id":"chatcmpl-1","choi');
    return true;
  }
  return false;
}

/** The newest requests, as they came: the witness of what the gateway sends. */
const witnessedMax = 200;

/** The routes of both protocols, and of the witness. */
export function chatRoutes({ apiKey, faults: book, counters }: ChatOptions): Route[] {
  const witnessed: { protocol: string; body: unknown }[] = [];

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
    const told = protocol.read(body);
    witnessed.push({ protocol: protocol.name, body });
    if (witnessed.length > witnessedMax) witnessed.shift();
    if (typeof told === 'string') {
      counters.chatCallsRefused += 1;
      answerJson(exchange, { status: 400, body: protocol.error(400, told) });
      return;
    }
    const faults = book.forSubmit(`${protocol.name}/${told.talk.model}`, body, told.talk.text);
    const struck: Struck = (name) => {
      const fault = findFault(faults, name);
      return fault && book.strikes(fault) ? fault : undefined;
    };
    if (interrupt(exchange, protocol, struck)) counters.chatCallsRefused += 1;
    else await answer(exchange, told, faults);
  };

  return [
    {
      method: 'POST',
      pattern: /^\/chat-openai\/v1\/chat\/completions$/,
      handle: handle(openai),
    },
    { method: 'POST', pattern: /^\/chat-anthropic\/v1\/messages$/, handle: handle(anthropic) },
    {
      method: 'GET',
      pattern: /^\/_sandbox\/chat-requests$/,
      handle: (exchange) => {
        const match = exchange.url.searchParams.get('match') ?? '';
        const found = witnessed.filter(({ body }) => JSON.stringify(body)?.includes(match));
        answerJson(exchange, { status: 200, body: found });
      },
    },
  ];
}
