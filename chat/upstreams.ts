/**
 * Upstreams of chat: address and key of a model's provider, and HTTP requests to it, each sent
 * once. The sandbox serves providers without a key.
 */
import type { Readable } from 'node:stream';
import { Pool, type Dispatcher } from 'undici';
import { chatProviders, type ChatProtocol as ProtocolName } from '../catalog/chat-providers.ts';
import type { ChatModel } from '../catalog/chat-model.ts';
import { GatewayError } from '../domain/errors.ts';
import type { Config } from '../platform/config.ts';
import { correlation } from '../platform/correlation.ts';
import { createFairShare, type FairShare } from '../platform/fair-share.ts';
import { anthropicProtocol } from './protocols/anthropic-protocol.ts';
import { openaiProtocol } from './protocols/openai-protocol.ts';
import type { ChatProtocol } from './protocols/protocol.ts';
import { answeredFailure, UnpaidFailure, upstreamUnreached } from './upstream-failures.ts';

/** Chat endpoint of a provider. */
export interface Upstream {
  protocol: ChatProtocol;
  /**
   * Sends a request and returns the body of a streamed response once its headers have arrived.
   * @throws GatewayError if there is no response, or its status is an error
   */
  stream: (body: string, signal: AbortSignal) => Promise<Readable>;
  /**
   * Sends a request and returns the text of the response.
   * @throws GatewayError as `stream`, and if the response ends early
   */
  whole: (body: string, signal: AbortSignal) => Promise<string>;
}

type Answer = Dispatcher.ResponseData['body'];

interface Exchanged {
  body: string;
  /** Longest time between two pieces of the response, in milliseconds. */
  bodyTimeout: number;
  signal: AbortSignal;
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
/** Highest number of bytes of an error response that are read. */
const errorBytesMax = 64 * 1024;

/** Makes the upstreams of a process. */
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
    const connections = createFairShare(config.CHAT_CONNECTIONS_MAX);
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
    async function send(request: Exchanged): Promise<Answer> {
      const leave = takeConnection(connections);
      const answer = await pool.request({ ...options, ...request }).catch((error: unknown) => {
        leave();
        throw upstreamUnreached(error);
      });
      answer.body.once('close', leave);
      const { statusCode: status, headers: head } = answer;
      if (status < 300) return answer.body;
      const page = parseError(await readError(answer.body));
      const refusal = { status, body: page, retryAfter: head['retry-after'] };
      throw answeredFailure(status, protocol.failureOf(refusal));
    }

    return {
      protocol,
      stream: (body, signal) => send({ body, signal, bodyTimeout: config.CHAT_SILENCE_TIMEOUT_MS }),
      async whole(body, signal) {
        const answer = await send({ body, signal, bodyTimeout: config.CHAT_ANSWER_TIMEOUT_MS });
        return answer.text().catch((error: unknown) => {
          throw upstreamUnreached(error);
        });
      },
    };
  }

  return {
    /** Returns the upstream of a model. @throws GatewayError SERVICE_UNAVAILABLE */
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
/** Upstreams of chat, by model. */
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

/**
 * Takes a connection to a provider for the organization of the request; returns the function that
 * releases it.
 * @throws UnpaidFailure if the organization uses its share of the connections
 */
function takeConnection(connections: FairShare): () => void {
  const leave = connections.take(correlation().organizationId ?? '');
  if (leave) return leave;
  const message = 'This organization has too many running chats with the provider of this model.';
  throw new UnpaidFailure(
    new GatewayError('SERVICE_UNAVAILABLE', message, { retryAfterSeconds: 2 }),
  );
}

async function readError(page: Answer): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  try {
    for await (const packet of page) {
      text += decoder.decode(packet, { stream: true });
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
