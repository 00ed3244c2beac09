/**
 * Fetches the URLs that callers and providers supply, and blocks connections to private addresses.
 * It checks an IP address in the URL, all addresses of a host name, and the address of the
 * connection. The number of redirects is limited, and each redirect is checked like the first URL.
 */
import type { LookupAddress, LookupOptions } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { buildConnector, type Dispatcher, request } from 'undici';
import { createAgent } from './connector.ts';
import { isPublicAddress, isPublicHost } from './public-hosts.ts';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * Error for a URL that could not be fetched. `blocked`: the outbound guard does not allow the
 * connection. For the other reasons, the server is unreachable or sent an unusable response.
 */
export class OutboundError extends Error {
  override readonly name = 'OutboundError';
  readonly reason: 'blocked' | 'unreachable' | 'status' | 'too_large' | 'broken';
  readonly status: number | undefined;

  constructor(reason: OutboundError['reason'], message: string, status?: number) {
    super(message);
    this.reason = reason;
    this.status = status;
  }

  /** True if another request may succeed, because the server was unreachable, busy or failed. */
  get isTemporary(): boolean {
    const { reason, status = 0 } = this;
    const isConnection = reason === 'unreachable' || reason === 'broken';
    return isConnection || [408, 425, 429].includes(status) || status >= 500;
  }
}

/** Throws the error for a URL that the outbound guard blocks. @throws OutboundError blocked */
function throwBlocked(message: string): never {
  throw new OutboundError('blocked', message);
}

/** Function that resolves a host name to all its addresses. */
export type ResolveName = (host: string) => Promise<LookupAddress[]>;

/** Error message for a host that does not have a public address. */
const notPublicMessage = 'the host does not have a public address';

const resolver = new Resolver({ timeout: 1500, tries: 2 });

/**
 * Resolves a host name by querying the name servers directly. The resolver of the operating system
 * would wait for a slow name server in one of the few threads that file and image operations need.
 */
async function resolveByNameServer(host: string): Promise<LookupAddress[]> {
  const [v4, v6] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  if (v4.status === 'rejected' && v6.status === 'rejected') {
    throw new OutboundError('unreachable', 'the host name does not resolve');
  }
  return [
    ...(v4.status === 'fulfilled' ? v4.value : []).map((address) => ({ address, family: 4 })),
    ...(v6.status === 'fulfilled' ? v6.value : []).map((address) => ({ address, family: 6 })),
  ];
}

/**
 * Wraps a resolver so that a name is blocked if any of its addresses is not public.
 * @throws OutboundError blocked, unreachable
 */
function guardResolver(resolve: ResolveName = resolveByNameServer): ResolveName {
  return async (host) => {
    const addresses = await resolve(host);
    if (addresses.length === 0 || addresses.some((entry) => !isPublicAddress(entry.address))) {
      throwBlocked(notPublicMessage);
    }
    return addresses;
  };
}

type LookupCallback = (
  error: Error | null,
  addresses: LookupAddress[] | string,
  family?: number,
) => void;

/**
 * Creates an HTTP agent that uses a guarded resolver and connects only to public addresses. It asks a
 * proxy for a tunnel to the address that was checked, because a proxy may resolve the name to another.
 */
function createGuardedAgent(resolve: ResolveName): Dispatcher {
  async function lookUp(host: string, all: boolean, callback: LookupCallback): Promise<void> {
    let addresses: LookupAddress[];
    try {
      addresses = await resolve(host);
    } catch (error) {
      return callback(error instanceof Error ? error : new Error(String(error)), []);
    }
    return all
      ? callback(null, addresses)
      : callback(null, addresses[0]?.address ?? '', addresses[0]?.family);
  }
  const lookup = (host: string, options: LookupOptions, callback: LookupCallback): void =>
    void lookUp(host, options.all === true, callback);
  const connect = buildConnector({ timeout: 5000, lookup });
  return createAgent({
    keepAliveTimeout: 10_000,
    connections: 64,
    async resolveTunnel(tunnel) {
      const { hostname, port } = new URL(`https://${tunnel}`);
      const host = hostname.replace(/^\[|\]$/g, '');
      // An address in the URL was checked before the request.
      const [{ address }] = isIP(host) ? [{ address: host }] : await resolve(host);
      return `${isIP(address) === 6 ? `[${address}]` : address}:${port || '443'}`;
    },
    connect(target, callback) {
      connect(target, (error, socket) => {
        if (error) return callback(error, null);
        if (!isPublicAddress(socket.remoteAddress ?? '')) {
          socket.destroy();
          return callback(new OutboundError('blocked', notPublicMessage), null);
        }
        return callback(null, socket);
      });
    },
  });
}

/** Returns the start of a response body as text, or what arrived before the response failed. */
export async function readStart(
  response: Dispatcher.ResponseData,
  bytesMax: number,
): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of response.body as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      size += chunk.length;
      if (size >= bytesMax) break;
    }
  } catch {
    // An error is ignored, because the status of the response has already arrived.
  }
  discard(response);
  return Buffer.concat(chunks).subarray(0, bytesMax).toString('utf8');
}

/** Discards a response without reading it, and ignores its errors. */
function discard(response: Dispatcher.ResponseData): void {
  response.body.on('error', () => {}).destroy();
}

/**
 * Returns the body of a successful response as a stream. The stream fails with `too_large` after
 * more than `bytesMax` bytes.
 * @throws OutboundError status, broken, too_large
 */
function openBody(response: Dispatcher.ResponseData, bytesMax: number): Readable {
  const fail = (error: OutboundError): never => {
    discard(response);
    throw error;
  };
  if (response.statusCode !== 200) {
    fail(
      new OutboundError(
        'status',
        `the URL responded with status ${response.statusCode}`,
        response.statusCode,
      ),
    );
  }
  const encoding = response.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity') {
    fail(new OutboundError('broken', 'the response is compressed, which the request excluded'));
  }
  const length = response.headers['content-length'];
  if (typeof length === 'string' && Number(length) > bytesMax) {
    fail(new OutboundError('too_large', `the file has more than ${bytesMax} bytes`));
  }
  return Readable.from(limitBytes(response.body, bytesMax), { objectMode: false });
}

/**
 * Reads the bytes of a partial response, and the size of the whole file.
 * @throws OutboundError broken, too_large
 */
async function readPart(
  response: Dispatcher.ResponseData,
  start: number,
  end: number,
): Promise<{ bytes: Buffer; sizeBytes: number }> {
  const range = String(response.headers['content-range']);
  const [, first, last, size] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(range) ?? [];
  const bytes = await buffer(limitBytes(response.body, end - start));
  if (Number(first) !== start || bytes.length !== Number(last) - start + 1) {
    throw new OutboundError('broken', 'the server sent another part of the file');
  }
  return { bytes, sizeBytes: Number(size) };
}

async function* limitBytes(source: Readable, bytesMax: number): AsyncGenerator<Buffer> {
  let size = 0;
  try {
    for await (const chunk of source as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > bytesMax) {
        throw new OutboundError('too_large', `the file has more than ${bytesMax} bytes`);
      }
      yield chunk;
    }
  } catch (error) {
    if (error instanceof OutboundError) throw error;
    throw new OutboundError('broken', 'the response ended early');
  }
}

/** Limits of a guarded fetch. */
export interface FetchLimits {
  bytesMax: number;
  /** Time limit for the request and the complete response, in milliseconds. */
  timeoutMs: number;
  signal?: AbortSignal;
}

/** Part of a file, and the time limit for its request in milliseconds. */
export interface FilePart {
  start: number;
  end: number;
  timeoutMs: number;
  signal?: AbortSignal;
}

/** POST request to a foreign server. */
export interface PostMessage {
  headers: Record<string, string>;
  body: string;
  /** Time limit for the request and the response, in milliseconds. */
  timeoutMs: number;
  /** Maximum number of response bytes to read. */
  responseBytesMax: number;
}

/** Response to a POST; a redirect is returned like any other response. */
export interface PostResponse {
  status: number;
  retryAfter: string | string[] | undefined;
  /** Target of a redirect, without query and fragment; null for other responses. */
  redirectsTo: string | null;
  text: string;
}

/** Guarded requests to foreign URLs. */
export interface Outbound {
  /**
   * Fetches a URL and returns the response body as a stream. The stream fails with `too_large`
   * after more than `bytesMax` bytes.
   * @throws OutboundError
   */
  fetch: (url: string, limits: FetchLimits) => Promise<Readable>;
  /**
   * Fetches the bytes from `start` (included) to `end` (excluded) of a file, and returns them with
   * the size of the file; null if the server sends only whole files.
   * @throws OutboundError
   */
  fetchPart: (url: string, part: FilePart) => Promise<{ bytes: Buffer; sizeBytes: number } | null>;
  /**
   * Sends a POST request once, without following redirects.
   * @throws OutboundError blocked, unreachable
   */
  post: (url: string, message: PostMessage) => Promise<PostResponse>;
  /** Parses a URL, and checks it without resolving its host name. @throws OutboundError blocked */
  check: (url: string) => URL;
  /**
   * Checks a URL and the addresses of its host. Call it for a URL that a provider will fetch, or
   * that the gateway will fetch later.
   * @throws OutboundError blocked, unreachable
   */
  checkAddresses: (url: string) => Promise<URL>;
}

interface OutboundOptions {
  /** Origins that are allowed even if they are private or use plain http (sandbox, tests). */
  admittedOrigins: readonly string[];
  /** Allowed ports in addition to 443. */
  extraPorts?: readonly number[];
  /** Function that resolves host names. Defaults to queries to the system's name servers. */
  resolve?: ResolveName;
}

const redirectsMax = 3;
const redirectStatuses = new Set([301, 302, 303, 307, 308]);
/** Maximum length of a URL. Other systems may reject longer URLs. */
const urlLengthMax = 8192;
const resolveTimeoutMs = 3000;

type Check = Outbound['check'];

function createCheck(admitted: ReadonlySet<string>, extraPorts: readonly number[]): Check {
  const ports = new Set(['', ...extraPorts.map(String)]);
  return (text) => {
    if (text.length > urlLengthMax) throwBlocked('the URL is too long');
    const url = URL.canParse(text) ? new URL(text) : throwBlocked('not a URL');
    // The protocol is checked first, as a blob: URL has the origin of the page that created it.
    if (url.protocol !== 'https:' && url.protocol !== 'http:') throwBlocked('must be an https URL');
    if (url.username || url.password) throwBlocked('the URL must not contain credentials');
    url.hash = '';
    if (admitted.has(url.origin)) return url;
    if (url.protocol !== 'https:') throwBlocked('must be an https URL');
    if (!ports.has(url.port)) throwBlocked('the port must be 443');
    const host = url.hostname.replace(/^\[|\]$/g, '').replace(/(?<!\.)\.+$/, '');
    if (!isPublicHost(host)) throwBlocked(notPublicMessage);
    return url;
  };
}

/** Creates the function that sends one request, guarded unless its origin is admitted. */
function createSend(admitted: ReadonlySet<string>, resolve: ResolveName) {
  const guardedAgent = createGuardedAgent(resolve);
  const unguardedAgent = createAgent({ keepAliveTimeout: 10_000, connections: 256 });
  return (url: URL, fields: OutboundRequest): Promise<Dispatcher.ResponseData> =>
    request(url, {
      ...fields,
      dispatcher: admitted.has(url.origin) ? unguardedAgent : guardedAgent,
      headers: {
        ...fields.headers,
        // Not compressed, because a small response could expand to a very large one.
        'accept-encoding': 'identity',
        'user-agent': 'studio-gateway',
      },
    });
}

/** Creates the functions that send guarded requests. */
export function createOutbound(options: OutboundOptions): Outbound {
  const admitted = new Set(options.admittedOrigins);
  const check = createCheck(admitted, options.extraPorts ?? []);
  const resolve = guardResolver(options.resolve);
  const send = createSend(admitted, resolve);

  /** Sends a GET request, and follows redirects. @throws OutboundError */
  async function get(
    text: string,
    limits: Pick<FetchLimits, 'timeoutMs' | 'signal'>,
    headers: Record<string, string> = {},
  ): Promise<Dispatcher.ResponseData> {
    const deadline = AbortSignal.timeout(limits.timeoutMs);
    const signal = limits.signal ? AbortSignal.any([deadline, limits.signal]) : deadline;
    let url = check(text);
    for (let redirectCount = 0; redirectCount <= redirectsMax; redirectCount += 1) {
      const response = await send(url, { method: 'GET', signal, headers }).catch(
        (error: unknown) => {
          throw toOutboundError(error, 'the URL could not be read');
        },
      );
      const location = response.headers['location'];
      if (!redirectStatuses.has(response.statusCode) || typeof location !== 'string') {
        return response;
      }
      discard(response);
      if (!URL.canParse(location, url.href)) throwBlocked('not a URL');
      url = check(new URL(location, url.href).href);
    }
    return throwBlocked(`more than ${redirectsMax} redirects`);
  }

  return {
    check,
    async post(text, { responseBytesMax, timeoutMs, ...message }) {
      const url = check(text);
      const signal = AbortSignal.timeout(timeoutMs);
      try {
        const response = await send(url, { method: 'POST', signal, ...message });
        return {
          status: response.statusCode,
          retryAfter: response.headers['retry-after'],
          redirectsTo: readRedirect(response, url),
          text: await readStart(response, responseBytesMax),
        };
      } catch (error) {
        const reason = signal.aborted
          ? `no response within ${timeoutMs} ms`
          : 'the URL could not be reached';
        throw toOutboundError(error, reason);
      }
    },
    fetch: async (text, limits) => openBody(await get(text, limits), limits.bytesMax),
    async fetchPart(text, { start, end, ...limits }) {
      const response = await get(text, limits, { range: `bytes=${start}-${end - 1}` });
      if (response.statusCode === 206) return readPart(response, start, end);
      discard(response);
      return null;
    },
    async checkAddresses(text) {
      const url = check(text);
      if (!admitted.has(url.origin) && !isIP(url.hostname.replace(/^\[|\]$/g, ''))) {
        await resolveInTime(url.hostname, resolve);
      }
      return url;
    },
  };
}

/** Returns the target of a redirect without query and fragment, which may contain secrets. */
function readRedirect({ statusCode, headers }: Dispatcher.ResponseData, url: URL): string | null {
  const location = String(headers['location'] ?? '');
  if (!redirectStatuses.has(statusCode) || !URL.canParse(location, url.href)) return null;
  const { origin, pathname } = new URL(location, url.href);
  return (origin + pathname).slice(0, urlLengthMax);
}

/** Options of one request. They do not include the options that all requests share. */
interface OutboundRequest {
  method: 'GET' | 'POST';
  signal: AbortSignal;
  headers?: Record<string, string>;
  body?: string;
}

/** Returns an `OutboundError` unchanged, and converts any other error to one with this message. */
function toOutboundError(error: unknown, message: string): OutboundError {
  return error instanceof OutboundError ? error : new OutboundError('unreachable', message);
}

/** Resolves a host name within a time limit. Blocks it unless all its addresses are public. */
async function resolveInTime(host: string, resolve: ResolveName): Promise<void> {
  const timer = new AbortController();
  const timeout = delay(resolveTimeoutMs, undefined, { signal: timer.signal }).then(() => {
    throw new OutboundError('unreachable', 'the host name does not resolve');
  });
  try {
    await Promise.race([resolve(host), timeout]);
  } finally {
    timeout.catch(() => {});
    timer.abort();
  }
}
