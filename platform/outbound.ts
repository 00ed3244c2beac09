/**
 * The one guarded fetch for every URL that a caller or a provider supplies (design §9). It decides on
 * bytes of addresses, not on spellings: literals are checked before connecting, names by every address
 * they resolve to, and the connected address once more. Redirects are few and checked like the first hop.
 */
import { lookup as dnsLookup, type LookupAddress, type LookupOptions } from 'node:dns';
import { isIP } from 'node:net';
import { Readable } from 'node:stream';
import ipaddr from 'ipaddr.js';
import { Agent, buildConnector, request, type Dispatcher } from 'undici';

/** A URL that must not be, or could not be, fetched. `refused`: our guard; else the far side. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError';
  readonly reason: 'refused' | 'unreachable' | 'status' | 'too_large' | 'broken';
  readonly status: number | undefined;

  constructor(reason: OutboundError['reason'], message: string, status?: number) {
    super(message);
    this.reason = reason;
    this.status = status;
  }
}

/** What a guarded fetch may cost. */
export interface FetchLimits {
  bytesMax: number;
  /** Milliseconds for the whole exchange, body included. */
  timeoutMs: number;
  signal?: AbortSignal;
}

/** An open answer: the stream fails with `too_large` beyond the limit. */
export interface FetchedBody {
  body: Readable;
  contentType: string | null;
  finalUrl: string;
}

/** Fetches foreign URLs. */
export interface Outbound {
  /** @throws OutboundError */
  fetch: (url: string, limits: FetchLimits) => Promise<FetchedBody>;
  /** Parses a URL and refuses what could never be fetched. @throws OutboundError refused */
  check: (url: string) => URL;
}

const redirectsMax = 3;
const redirectStatuses = new Set([301, 302, 303, 307, 308]);

/**
 * Tells whether an address is global unicast. IPv6 forms that carry an IPv4 address (mapped, 6to4,
 * NAT64, Teredo, compatible) are refused as a whole: nobody reachable needs them.
 */
export function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.kind() === 'ipv4') return parsed.range() === 'unicast';
  return parsed.range() === 'unicast' && ((parsed.toByteArray()[0] ?? 0) & 0xe0) === 0x20;
}

type LookupCallback = (
  error: Error | null,
  found: LookupAddress[] | string,
  family?: number,
) => void;

/** Resolves a name and refuses it when any of its addresses is not public. */
function guardedLookup(host: string, options: LookupOptions, done: LookupCallback): void {
  dnsLookup(host, { all: true }, (error, found) => {
    if (error) done(error, []);
    else if (found.length === 0 || found.some((entry) => !isPublicAddress(entry.address))) {
      done(new OutboundError('refused', 'the host does not have a public address'), []);
    } else if (options.all) done(null, found);
    else done(null, found[0]?.address ?? '', found[0]?.family);
  });
}

function guardedAgent(): Agent {
  const connect = buildConnector({ timeout: 5000, lookup: guardedLookup });
  return new Agent({
    keepAliveTimeout: 10_000,
    connections: 64,
    connect(target, done) {
      connect(target, (error, socket) => {
        if (error) return done(error, null);
        if (!isPublicAddress(socket.remoteAddress ?? '')) {
          socket.destroy();
          return done(
            new OutboundError('refused', 'the host does not have a public address'),
            null,
          );
        }
        return done(null, socket);
      });
    },
  });
}

/** `allowedOrigins`: origins admitted although private or plain http (the sandbox, tests). */
export function createOutbound(allowedOrigins: readonly string[]): Outbound {
  const guarded = guardedAgent();
  const open = new Agent({
    keepAliveTimeout: 10_000,
    connections: 256,
    connect: { timeout: 5000 },
  });
  const admitted = new Set(allowedOrigins);

  function check(spelled: string): URL {
    const url = URL.canParse(spelled) ? new URL(spelled) : null;
    if (!url) throw new OutboundError('refused', 'not a URL');
    if (admitted.has(url.origin)) return url;
    if (url.protocol !== 'https:') throw new OutboundError('refused', 'only https URLs are read');
    if (url.port !== '') throw new OutboundError('refused', 'only the standard port is read');
    if (url.username || url.password)
      throw new OutboundError('refused', 'URLs carry no credentials');
    const host = url.hostname.replace(/^\[|\]$/g, '');
    if (isIP(host) && !isPublicAddress(host)) {
      throw new OutboundError('refused', 'the host does not have a public address');
    }
    return url;
  }

  async function openHop(url: URL, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    try {
      return await request(url, {
        dispatcher: admitted.has(url.origin) ? open : guarded,
        method: 'GET',
        // No compression: a small answer must not become a large one.
        headers: { 'accept-encoding': 'identity', 'user-agent': 'studio-gateway' },
        signal,
      });
    } catch (error) {
      if (error instanceof OutboundError) throw error;
      throw new OutboundError('unreachable', 'the URL could not be read');
    }
  }

  async function fetch(spelled: string, limits: FetchLimits): Promise<FetchedBody> {
    const deadline = AbortSignal.timeout(limits.timeoutMs);
    const signal = limits.signal ? AbortSignal.any([deadline, limits.signal]) : deadline;
    let url = check(spelled);
    for (let hop = 0; hop <= redirectsMax; hop += 1) {
      // oxlint-disable-next-line no-await-in-loop -- the next hop is known only from this one
      const answer = await openHop(url, signal);
      const location = answer.headers['location'];
      if (!redirectStatuses.has(answer.statusCode) || typeof location !== 'string') {
        return admit(answer, { url, bytesMax: limits.bytesMax });
      }
      answer.body.destroy();
      url = check(new URL(location, url).href);
    }
    throw new OutboundError('refused', `more than ${redirectsMax} redirects`);
  }

  return { fetch, check };
}

function admit(
  answer: Dispatcher.ResponseData,
  limits: { url: URL; bytesMax: number },
): FetchedBody {
  const refuse = (error: OutboundError): never => {
    answer.body.on('error', () => {}).destroy();
    throw error;
  };
  if (answer.statusCode !== 200) {
    refuse(new OutboundError('status', `the URL answered ${answer.statusCode}`, answer.statusCode));
  }
  const encoding = answer.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity') {
    refuse(new OutboundError('broken', 'the answer is compressed although that was declined'));
  }
  const length = answer.headers['content-length'];
  if (typeof length === 'string' && Number(length) > limits.bytesMax) {
    refuse(new OutboundError('too_large', `the file has more than ${limits.bytesMax} bytes`));
  }
  const type = answer.headers['content-type'];
  return {
    body: Readable.from(capped(answer.body, limits.bytesMax), { objectMode: false }),
    contentType: typeof type === 'string' ? type : null,
    finalUrl: limits.url.href,
  };
}

async function* capped(source: Readable, bytesMax: number): AsyncGenerator<Buffer> {
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
    throw new OutboundError('broken', 'the URL broke off');
  }
}
