/**
 * Upstreams of chat: which address and key a model's provider has, and the HTTP exchange with it. A
 * provider without a key is the sandbox's; nothing is ever sent twice.
 */
import { Pool } from 'undici';
import { chatProviders, type ChatProtocol as ProtocolName } from '../../catalog/chat-providers.ts';
import type { ChatModel } from '../../catalog/chat-model.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { Config } from '../../platform/config.ts';
import { anthropicProtocol } from './protocols/anthropic-protocol.ts';
import { openaiProtocol } from './protocols/openai-protocol.ts';
import type { ChatProtocol } from './protocols/protocol.ts';
import { answeredFailure } from './upstream-failures.ts';
import {
  exchangeStream,
  exchangeWhole,
  type Cancellation,
  type Packets,
} from './upstream-exchange.ts';

/** A provider's chat, ready to be asked. */
export interface Upstream {
  protocol: ChatProtocol;
  /**
   * One exchange with a streamed answer, up to its head.
   * @throws GatewayError when there is no answer or it is an error
   */
  stream: (body: string, cancellation: Cancellation) => Promise<Packets>;
  /**
   * One exchange with its whole answer, as text.
   * @throws GatewayError as `stream`, and when the answer breaks off
   */
  whole: (body: string, cancellation: Cancellation) => Promise<string>;
}

/** Finds upstreams. */
export interface Upstreams {
  /** @throws GatewayError SERVICE_UNAVAILABLE when the provider is not configured. */
  of: (model: ChatModel) => Upstream;
  close: () => Promise<void>;
}

type RetryAfter = string | string[] | undefined;

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
      answeredFailure(status, protocol.failureOf({ status, body: parseError(text), retryAfter }));
    return {
      protocol,
      async stream(body, cancellation) {
        const bodyTimeout = config.CHAT_SILENCE_TIMEOUT_MS;
        const request = { ...options, body, bodyTimeout };
        const answer = await exchangeStream({ pool, options: request, cancellation });
        if (answer.status < 300) return answer.packets;
        const text = await readError(answer.packets);
        throw refused(answer.status, text, answer.retryAfter);
      },
      async whole(body, cancellation) {
        const bodyTimeout = config.CHAT_ANSWER_TIMEOUT_MS;
        const request = { ...options, body, bodyTimeout };
        const answer = await exchangeWhole({ pool, options: request, cancellation });
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

async function readError(packets: Packets): Promise<string> {
  let text = '';
  try {
    while (text.length <= errorBytesMax) {
      // One packet after the other.
      const packet = await packets.read();
      if (!packet) break;
      text += packet.toString('utf8');
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
