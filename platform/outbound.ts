/**
 * Fetches the URLs that callers and providers supply, and blocks connections to private addresses.
 * It checks an IP address in the URL, all addresses of a host name, and the address of the
 * connection. The number of redirects is limited, and each redirect is checked like the first URL.
 */
import { isIP } from 'node:net';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { Agent, request, type Dispatcher } from 'undici';
import {
  guardResolver,
  createGuardedAgent,
  isPublicHost,
  notPublicMessage,
  OutboundError,
  throwBlocked,
  type ResolveName,
} from './outbound-addresses.ts';
import { openBody, discard, readStart } from './outbound-responses.ts';

/** Limits of a guarded fetch. */
export interface FetchLimits {
  bytesMax: number;
  /** Time limit for the request and the complete response, in milliseconds. */
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
    const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.+$/, '');
    if (!isPublicHost(host)) throwBlocked(notPublicMessage);
    return url;
  };
}

/** Creates the functions that send guarded requests. */
export function createOutbound(options: OutboundOptions): Outbound {
  const admitted = new Set(options.admittedOrigins);
  const check = createCheck(admitted, options.extraPorts ?? []);
  const resolve = guardResolver(options.resolve);
  const guardedAgent = createGuardedAgent(resolve);
  const unguardedAgent = new Agent({
    keepAliveTimeout: 10_000,
    connections: 256,
    connect: { timeout: 5000 },
  });

  async function send(url: URL, fields: OutboundRequest): Promise<Dispatcher.ResponseData> {
    return request(url, {
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
          text: await readStart(response, responseBytesMax),
        };
      } catch (error) {
        const reason = signal.aborted
          ? `no response within ${timeoutMs} ms`
          : 'the URL could not be reached';
        throw toOutboundError(error, reason);
      }
    },
    async fetch(text, limits) {
      const deadline = AbortSignal.timeout(limits.timeoutMs);
      const signal = limits.signal ? AbortSignal.any([deadline, limits.signal]) : deadline;
      let url = check(text);
      for (let redirectCount = 0; redirectCount <= redirectsMax; redirectCount += 1) {
        const response = await send(url, { method: 'GET', signal }).catch((error: unknown) => {
          throw toOutboundError(error, 'the URL could not be read');
        });
        const location = response.headers['location'];
        if (!redirectStatuses.has(response.statusCode) || typeof location !== 'string') {
          return openBody(response, limits.bytesMax);
        }
        discard(response);
        if (!URL.canParse(location, url.href)) throwBlocked('not a URL');
        url = check(new URL(location, url.href).href);
      }
      return throwBlocked(`more than ${redirectsMax} redirects`);
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
