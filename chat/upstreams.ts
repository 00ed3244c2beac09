/**
 * HTTP connections to chat providers. Each request is sent once. If the gateway has no API key for
 * a provider, its requests are sent to the sandbox.
 */
import { pipeline, type Duplex, type Readable } from 'node:stream';
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
} from 'node:zlib';
import type { Dispatcher } from 'undici';
import { chatProviders, type ChatProtocol as ProtocolName } from './chat-providers.ts';
import { getKind, type ChatModel } from './models.ts';
import { GatewayError } from '../domain/errors.ts';
import type { Config } from '../platform/config.ts';
import { createAgent } from '../platform/connector.ts';
import { correlation } from '../platform/logger.ts';
import { createShares, type Shares } from '../platform/shares.ts';
import { anthropicProtocol, openaiProtocol } from './protocols/chat-protocols.ts';
import { embeddingsProtocol } from './protocols/embeddings-protocol.ts';
import type { ChatProtocol } from './protocols/protocol.ts';
import {
  errorFromResponse,
  markUnbilled,
  UnbilledFailure,
  networkFailure,
} from './upstream-failures.ts';

/** Request to a provider. */
export interface UpstreamRequest {
  body: string;
  signal: AbortSignal;
  /** Called once the whole request has been passed to a connection. */
  onSent: () => void;
  /** Called if the provider responds with an error status. */
  onRejected: () => void;
}

/** Connection to the chat endpoint of a provider. */
export interface Upstream {
  protocol: ChatProtocol;
  /**
   * Sends a request and returns the body of a streamed response once its headers have arrived.
   * @throws GatewayError if there is no response, or its status is an error
   */
  fetchStream: (request: UpstreamRequest) => Promise<Readable>;
  /**
   * Sends a request and returns the text of the response.
   * @throws GatewayError if there is no response, its status is an error, or it ends early or is
   * too long
   */
  fetchText: (request: UpstreamRequest) => Promise<string>;
}

interface Address {
  baseUrl: string;
  apiKey: string;
}

const protocols: Record<ProtocolName, ChatProtocol> = {
  openai: openaiProtocol,
  anthropic: anthropicProtocol,
};
const defaultUrls = new Map(chatProviders.map(({ name, baseUrl }) => [name, baseUrl]));
const keepAliveTimeoutMs = 30_000;
/** Maximum size of an error response in bytes; a longer response is treated as empty. */
const errorBytesMax = 64 * 1024;

/** Creates the connections of a process. They are opened at their first use. */
export function createUpstreams(config: Config) {
  const connectedUpstreams = new Map<string, Upstream>();
  const pools: Dispatcher[] = [];

  function connect(model: ChatModel): Upstream {
    const { baseUrl, apiKey } = findAddress(model, config);
    const protocol = model.embedding ? embeddingsProtocol : protocols[model.protocol];
    const url = new URL(baseUrl.replace(/\/$/, '') + protocol.path);
    const pool = createPool(config.CHAT_CONNECTIONS_MAX);
    pools.push(pool);
    const connections = createShares(config.CHAT_CONNECTIONS_MAX);
    const headers = {
      ...protocol.headers(apiKey),
      'content-type': 'application/json',
      'accept-encoding': 'identity',
      'user-agent': 'studio-gateway',
    };
    const options = {
      method: 'POST',
      origin: url.origin,
      path: url.pathname + url.search,
      headers,
      headersTimeout: config.CHAT_ANSWER_TIMEOUT_MS,
    } as const;
    /** Sends a request. `bodyTimeout`: maximum milliseconds between two packets of its response. */
    async function send(sent: UpstreamRequest, bodyTimeout: number): Promise<Readable> {
      const release = takeConnection(connections);
      const { body: requestBody, signal, onSent: opaque } = sent;
      const request = { ...options, body: requestBody, signal, bodyTimeout, opaque };
      const response = await pool.request(request).catch((error: unknown) => {
        release();
        throw networkFailure(error);
      });
      response.body.once('close', release);
      const { statusCode: status, headers: responseHeaders } = response;
      if (status < 300) return decompress(response);
      sent.onRejected();
      const retryAfter = responseHeaders['retry-after'];
      const body = await readErrorJson(response.body);
      throw markUnbilled(status, errorFromResponse(status, { body, retryAfter }));
    }

    return {
      protocol,
      fetchStream: (request) => send(request, config.CHAT_SILENCE_TIMEOUT_MS),
      async fetchText(request) {
        const response = await send(request, config.CHAT_ANSWER_TIMEOUT_MS);
        return readText(response, protocol.answerBytesMax).catch((error: unknown) => {
          throw networkFailure(error);
        });
      },
    };
  }

  return {
    /** Returns the connection for a model. @throws GatewayError SERVICE_UNAVAILABLE */
    get(model: ChatModel): Upstream {
      const name = `${getKind(model)} ${model.protocol} ${model.provider}`;
      let upstream = connectedUpstreams.get(name);
      if (!upstream) {
        upstream = connect(model);
        connectedUpstreams.set(name, upstream);
      }
      return upstream;
    },
    close: async (): Promise<void> => {
      await Promise.all(pools.map((pool) => pool.destroy()));
    },
  };
}
/** Connections to all chat providers. */
export type Upstreams = ReturnType<typeof createUpstreams>;

function createPool(connections: number): Dispatcher {
  const agent = createAgent({ connections, keepAliveTimeout: keepAliveTimeoutMs });
  return agent.compose(reportSent);
}

/** Calls the function in `opaque` of a request's options once the request has been sent. */
const reportSent: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) => {
  const onSent = 'opaque' in options ? options.opaque : null;
  if (typeof onSent === 'function') handler.onRequestSent = () => void onSent();
  return dispatch(options, handler);
};

function findAddress(model: ChatModel, config: Config): Address {
  const configuredUpstream = config.CHAT_UPSTREAMS[model.provider];
  if (configuredUpstream) {
    const baseUrl = configuredUpstream.baseUrl ?? defaultUrls.get(model.provider);
    if (baseUrl !== undefined) return { baseUrl, apiKey: configuredUpstream.apiKey };
  }
  const sandboxUrl = {
    openai: config.SANDBOX_CHAT_OPENAI_URL,
    anthropic: config.SANDBOX_CHAT_ANTHROPIC_URL,
  }[model.protocol];
  if (sandboxUrl !== undefined && config.SANDBOX_CHAT_KEY !== undefined) {
    return { baseUrl: sandboxUrl, apiKey: config.SANDBOX_CHAT_KEY };
  }
  throw new GatewayError(
    'SERVICE_UNAVAILABLE',
    `This gateway has no API key for ${model.provider}.`,
  );
}

/**
 * Takes a connection for the organization of the current request, and returns the function that
 * releases it.
 * @throws UnbilledFailure with status 429 if the organization uses its whole share of the
 * connections, or 503 if other organizations leave too few
 */
function takeConnection(connections: Shares): () => void {
  const organizationId = correlation().organizationId ?? '';
  const connection = connections.open(organizationId);
  const exceeded = connection.add(1);
  if (!exceeded) return connection.release;
  const extras = { retryAfterSeconds: 2 };
  throw new UnbilledFailure(
    exceeded === 'owner'
      ? new GatewayError(
          'Rate limit exceeded. Please slow down.',
          'This organization has too many running chats with the provider of this model. Wait until one of them ends.',
          extras,
        )
      : new GatewayError(
          'SERVICE_UNAVAILABLE',
          'The gateway has too many running chats with the provider of this model. Try again.',
          extras,
        ),
  );
}

/** Returns the body of a response; some providers compress it although they must not. */
function decompress({ body, headers }: Dispatcher.ResponseData<unknown>): Readable {
  const decoder = decoders[String(headers['content-encoding'] ?? 'identity').toLowerCase()];
  if (!decoder) return body;
  const decoded = decoder();
  pipeline(body, decoded, () => {});
  return decoded;
}

/** Decoders by content encoding. */
const decoders: Readonly<Record<string, (() => Duplex) | undefined>> = {
  gzip: createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};

/** Reads a response as text. @throws Error if it is longer than `bytesMax`, or ends early */
async function readText(body: Readable, bytesMax: number): Promise<string> {
  const packets: Buffer[] = [];
  let bytes = 0;
  for await (const packet of body as AsyncIterable<Buffer>) {
    bytes += packet.length;
    if (bytes > bytesMax) throw new Error(`the response is longer than ${bytesMax} bytes`);
    packets.push(packet);
  }
  return new TextDecoder().decode(Buffer.concat(packets));
}

/** Reads the JSON of an error response; returns null if it cannot be read. */
async function readErrorJson(body: Readable): Promise<unknown> {
  try {
    return JSON.parse(await readText(body, errorBytesMax));
  } catch {
    return null;
  }
}
