/**
 * Upstreams of chat: which address and key a model's provider has, and the HTTP exchange with it. A
 * provider without a key is the sandbox's; nothing is ever sent twice.
 */
import { Pool, type Dispatcher } from 'undici';
import { chatProviders, type ChatProtocol as ProtocolName } from '../../catalog/chat-providers.ts';
import type { ChatModel } from '../../catalog/chat-model.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { Config } from '../../platform/config.ts';
import { anthropicProtocol } from './protocols/anthropic-protocol.ts';
import { openaiProtocol } from './protocols/openai-protocol.ts';
import type { ChatProtocol } from './protocols/protocol.ts';
import { upstreamUnreached } from './upstream-failures.ts';

/** A provider's chat, ready to be asked. */
export interface Upstream {
  protocol: ChatProtocol;
  /**
   * One exchange with a streamed answer, up to its head.
   * @throws GatewayError when there is no answer or it is an error
   */
  stream: (body: string, signal: AbortSignal) => Promise<UpstreamBody>;
  /**
   * One exchange with its whole answer, as text.
   * @throws GatewayError as `stream`, and when the answer breaks off
   */
  whole: (body: string, signal: AbortSignal) => Promise<string>;
}

/** The body of a good answer. */
export type UpstreamBody = Dispatcher.ResponseData['body'];

/** Finds upstreams. */
export interface Upstreams {
  /** @throws GatewayError SERVICE_UNAVAILABLE when the provider is not configured. */
  of: (model: ChatModel) => Upstream;
  close: () => Promise<void>;
}

type RetryAfter = string | string[] | undefined;

interface WholeAnswer {
  status: number;
  retryAfter: RetryAfter;
  text: string;
}

interface Address {
  baseUrl: string;
  apiKey: string;
}

const protocols: Record<ProtocolName, ChatProtocol> = {
  openai: openaiProtocol,
  anthropic: anthropicProtocol,
};
const ownUrls = new Map(chatProviders.map(({ name, baseUrl }) => [name, baseUrl]));
const connectTimeoutMs = 5000;
const keepAliveTimeoutMs = 30_000;
/** An error page that is longer is not read. */
const errorBytesMax = 64 * 1024;

/** See `Upstreams`. */
export function createUpstreams(config: Config): Upstreams {
  const known = new Map<string, Upstream>();
  const pools: Pool[] = [];

  function connect(model: ChatModel): Upstream {
    const { baseUrl, apiKey } = addressOf(model, config);
    const protocol = protocols[model.protocol];
    const url = new URL(baseUrl.replace(/\/$/, '') + protocol.path);
    const pool = new Pool(url.origin, {
      connections: config.CHAT_CONNECTIONS_MAX,
      connect: { timeout: connectTimeoutMs },
      keepAliveTimeout: keepAliveTimeoutMs,
    });
    pools.push(pool);
    const path = url.pathname + url.search;
    const headers = {
      ...protocol.headers(apiKey),
      'content-type': 'application/json',
      'accept-encoding': 'identity',
      'user-agent': 'studio-gateway',
    };
    const options = {
      method: 'POST',
      path,
      headers,
      headersTimeout: config.CHAT_ANSWER_TIMEOUT_MS,
    } as const;
    const refused = (status: number, text: string, retryAfter: RetryAfter): GatewayError =>
      protocol.failureOf({ status, body: parseError(text), retryAfter });
    return {
      protocol,
      async stream(body, signal) {
        const answer = await ask(pool, {
          ...options,
          body,
          signal,
          bodyTimeout: config.CHAT_SILENCE_TIMEOUT_MS,
        });
        if (answer.statusCode < 300) return answer.body;
        const text = await readError(answer.body);
        throw refused(answer.statusCode, text, answer.headers['retry-after']);
      },
      async whole(body, signal) {
        const request = { ...options, body, bodyTimeout: config.CHAT_ANSWER_TIMEOUT_MS };
        const answer = await exchangeWhole(pool, request, signal);
        if (answer.status < 300) return answer.text;
        throw refused(answer.status, answer.text, answer.retryAfter);
      },
    };
  }

  return {
    of(model) {
      const name = `${model.protocol} ${model.provider}`;
      let upstream = known.get(name);
      if (!upstream) {
        upstream = connect(model);
        known.set(name, upstream);
      }
      return upstream;
    },
    close: async () => {
      await Promise.all(pools.map((pool) => pool.destroy()));
    },
  };
}

function addressOf(model: ChatModel, config: Config): Address {
  const configured = config.CHAT_UPSTREAMS[model.provider];
  if (configured) {
    const baseUrl = configured.baseUrl ?? ownUrls.get(model.provider);
    if (baseUrl !== undefined) return { baseUrl, apiKey: configured.apiKey };
  }
  const sandbox = {
    openai: config.SANDBOX_CHAT_OPENAI_URL,
    anthropic: config.SANDBOX_CHAT_ANTHROPIC_URL,
  }[model.protocol];
  if (sandbox !== undefined && config.SANDBOX_CHAT_KEY !== undefined) {
    return { baseUrl: sandbox, apiKey: config.SANDBOX_CHAT_KEY };
  }
  throw new GatewayError('SERVICE_UNAVAILABLE', `This gateway has no key for ${model.provider}.`);
}

async function ask(
  pool: Pool,
  options: Dispatcher.RequestOptions,
): Promise<Dispatcher.ResponseData> {
  try {
    return await pool.request(options);
  } catch (error) {
    throw upstreamUnreached(error);
  }
}

/** As `ask` and reading its body, at half the cost: whole answers need no stream. */
async function exchangeWhole(
  pool: Pool,
  options: Dispatcher.DispatchOptions,
  signal: AbortSignal,
): Promise<WholeAnswer> {
  let giveUp: (() => void) | undefined;
  try {
    return await new Promise<WholeAnswer>((resolve, reject) => {
      const chunks: Buffer[] = [];
      let status = 0;
      let retryAfter: RetryAfter;
      let controller: Dispatcher.DispatchController | undefined;
      giveUp = () => {
        const reason = new Error('nobody waits for the answer');
        controller?.abort(reason);
        reject(reason);
      };
      signal.addEventListener('abort', giveUp);
      pool.dispatch(options, {
        onRequestStart(started) {
          controller = started;
          if (signal.aborted) giveUp?.();
        },
        onResponseStart(_controller, statusCode, headers) {
          status = statusCode;
          retryAfter = headers['retry-after'];
        },
        onResponseData: (_controller, chunk) => void chunks.push(chunk),
        onResponseEnd: () =>
          resolve({ status, retryAfter, text: Buffer.concat(chunks).toString('utf8') }),
        onResponseError: (_controller, error) => reject(error),
      });
    });
  } catch (error) {
    throw upstreamUnreached(error);
  } finally {
    if (giveUp) signal.removeEventListener('abort', giveUp);
  }
}

async function readError(body: UpstreamBody): Promise<string> {
  let text = '';
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      text += chunk.toString('utf8');
      if (text.length > errorBytesMax) break;
    }
    return text;
  } catch {
    return '';
  }
}

function parseError(text: string): unknown {
  if (text.length > errorBytesMax) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
