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
   * One exchange, up to the head of the answer.
   * @throws GatewayError when there is no answer or it is an error
   */
  post: (body: string, options: { signal: AbortSignal; stream: boolean }) => Promise<UpstreamBody>;
}

/** The body of a good answer. */
export type UpstreamBody = Dispatcher.ResponseData['body'];

/** Finds upstreams. */
export interface Upstreams {
  /** @throws GatewayError SERVICE_UNAVAILABLE when the provider is not configured. */
  of: (model: ChatModel) => Upstream;
  close: () => Promise<void>;
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
    return {
      protocol,
      async post(body, { signal, stream }) {
        const answer = await ask(pool, {
          method: 'POST',
          path,
          headers,
          body,
          signal,
          headersTimeout: config.CHAT_ANSWER_TIMEOUT_MS,
          bodyTimeout: stream ? config.CHAT_SILENCE_TIMEOUT_MS : config.CHAT_ANSWER_TIMEOUT_MS,
        });
        if (answer.statusCode < 300) return answer.body;
        throw protocol.failureOf({
          status: answer.statusCode,
          body: await readError(answer.body),
          retryAfter: answer.headers['retry-after'],
        });
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

async function readError(body: UpstreamBody): Promise<unknown> {
  let text = '';
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      text += chunk.toString('utf8');
      if (text.length > errorBytesMax) break;
    }
    return JSON.parse(text);
  } catch {
    return null;
  }
}
