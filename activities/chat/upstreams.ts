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
import { answeredFailure, upstreamUnreached } from './upstream-failures.ts';
import { exchange, type Cancellation, type Packets } from './upstream-exchange.ts';

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

interface Exchanged {
  body: string;
  /** Milliseconds of silence within the answer. */
  bodyTimeout: number;
  cancellation: Cancellation;
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

/** Finds upstreams. */
export function createUpstreams(config: Config) {
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
    async function ask(request: Exchanged): Promise<Packets> {
      const { body, bodyTimeout, cancellation } = request;
      const sent = { ...options, body, bodyTimeout };
      const { status, retryAfter, packets } = await exchange({ pool, options: sent, cancellation });
      if (status < 300) return packets;
      const page = parseError(await readError(packets));
      throw answeredFailure(status, protocol.failureOf({ status, body: page, retryAfter }));
    }

    return {
      protocol,
      stream: (body, cancellation) =>
        ask({ body, cancellation, bodyTimeout: config.CHAT_SILENCE_TIMEOUT_MS }),
      whole: async (body, cancellation) =>
        readWhole(await ask({ body, cancellation, bodyTimeout: config.CHAT_ANSWER_TIMEOUT_MS })),
    };
  }

  return {
    /** @throws GatewayError SERVICE_UNAVAILABLE when the provider is not configured. */
    of(model: ChatModel): Upstream {
      const name = `${model.protocol} ${model.provider}`;
      let upstream = known.get(name);
      if (!upstream) {
        upstream = connect(model);
        known.set(name, upstream);
      }
      return upstream;
    },
    close: async (): Promise<void> => {
      await Promise.all(pools.map((pool) => pool.destroy()));
    },
  };
}
/** See `createUpstreams`. */
export type Upstreams = ReturnType<typeof createUpstreams>;

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

async function readWhole(packets: Packets): Promise<string> {
  const chunks: Buffer[] = [];
  try {
    // One packet after the other.
    for (let next = await packets.read(); next; next = await packets.read()) chunks.push(next);
  } catch (error) {
    throw upstreamUnreached(error);
  }
  return Buffer.concat(chunks).toString('utf8');
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
