/**
 * The one guarded fetch for every URL that a caller or a provider supplies (design §9). It decides on
 * bytes of addresses, not on spellings: literals are checked before connecting, names by every address
 * they resolve to, and the connected address once more. Redirects are few and checked like the first hop.
 */
import type { LookupAddress, LookupOptions } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import ipaddr from 'ipaddr.js';
import { Agent, buildConnector, request, type Dispatcher } from 'undici';
import { OutboundError } from './outbound-error.ts';
import { createPost, type PostAnswer, type PostMessage } from './outbound-post.ts';

export { OutboundError };

function refuse(why: string): never {
  throw new OutboundError('refused', why);
}

/** What a guarded fetch may cost. */
export interface FetchLimits {
  bytesMax: number;
  /** Milliseconds for the whole exchange, body included. */
  timeoutMs: number;
  signal?: AbortSignal;
  /** Bytes asked for, both ends included; a server may answer with the whole file all the same. */
  range?: { first: number; last: number };
}

/** An open answer: the stream fails with `too_large` beyond the limit. */
export interface FetchedBody {
  body: Readable;
  contentType: string | null;
  finalUrl: string;
  /** Where the answer is the range asked for: the size of the whole file; else null. */
  rangeOfBytes: number | null;
}

/** Fetches foreign URLs. */
export interface Outbound {
  /** @throws OutboundError */
  fetch: (url: string, limits: FetchLimits) => Promise<FetchedBody>;
  /** Sends once and follows nothing. @throws OutboundError refused, unreachable */
  post: (url: string, message: PostMessage) => Promise<PostAnswer>;
  /** Parses a URL and refuses what could never be fetched. @throws OutboundError refused */
  check: (url: string) => URL;
  /**
   * As `check`, and resolves the name: for URLs that somebody else will fetch, or we later.
   * @throws OutboundError refused, unreachable
   */
  vet: (url: string) => Promise<URL>;
}

/** Resolves a name to all its addresses. */
export type ResolveName = (host: string) => Promise<LookupAddress[]>;

interface OutboundOptions {
  /** Origins admitted although private or plain http (the sandbox, tests). */
  admittedOrigins: readonly string[];
  /** Ports admitted beside 443. */
  extraPorts?: readonly number[];
  /** Defaults to the name servers of the system. */
  resolve?: ResolveName;
}

const redirectsMax = 3;
const redirectStatuses = new Set([301, 302, 303, 307, 308]);
/** No URL in use is longer; parsers and logs of others may not take more. */
const urlLengthMax = 8192;
const vetTimeoutMs = 3000;
const notPublic = 'the host does not have a public address';

/**
 * Names that never mean a host on the Internet (RFC 6761, 6762, 8375, and what clouds use): whatever a
 * resolver says of them, they are refused.
 */
const privateNames =
  /^[^.]+$|(^|\.)(localhost|local|internal|intranet|lan|corp|home|home\.arpa|test|invalid|onion)$/;

/** A public address that is private all the same: Azure's host agent answers its own guests there. */
const hostAgents = new Set(['168.63.129.16']);

/**
 * Tells whether an address is global unicast. IPv6 forms that carry an IPv4 address (mapped, 6to4,
 * NAT64, Teredo, compatible) are refused as a whole: nobody reachable needs them.
 */
export function isPublicAddress(address: string): boolean {
  if (!isIP(address)) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.range() !== 'unicast' || hostAgents.has(parsed.toString())) return false;
  return parsed.kind() === 'ipv4' || ((parsed.toByteArray()[0] ?? 0) & 0xe0) === 0x20;
}

const resolver = new Resolver({ timeout: 1500, tries: 2 });

/**
 * Asks the name servers. The system's own look-up would hold a thread of the few that files and images
 * need too, for as long as a caller's name server likes to take.
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

/** Resolves a name and refuses it when any of its addresses is not public. */
function guardName(resolve: ResolveName): ResolveName {
  return async (host) => {
    const found = await resolve(host);
    if (found.length === 0 || found.some((entry) => !isPublicAddress(entry.address))) {
      refuse(notPublic);
    }
    return found;
  };
}

type LookupCallback = (
  error: Error | null,
  found: LookupAddress[] | string,
  family?: number,
) => void;

function guardedAgent(resolve: ResolveName): Agent {
  async function answer(host: string, all: boolean, done: LookupCallback): Promise<void> {
    let found: LookupAddress[];
    try {
      found = await resolve(host);
    } catch (error) {
      return done(error instanceof Error ? error : new Error(String(error)), []);
    }
    return all ? done(null, found) : done(null, found[0]?.address ?? '', found[0]?.family);
  }
  const lookup = (host: string, options: LookupOptions, done: LookupCallback): void =>
    void answer(host, options.all === true, done);
  const connect = buildConnector({ timeout: 5000, lookup });
  return new Agent({
    keepAliveTimeout: 10_000,
    connections: 64,
    connect(target, done) {
      connect(target, (error, socket) => {
        if (error) return done(error, null);
        if (!isPublicAddress(socket.remoteAddress ?? '')) {
          socket.destroy();
          return done(new OutboundError('refused', notPublic), null);
        }
        return done(null, socket);
      });
    },
  });
}

type Check = Outbound['check'];

function createCheck(options: OutboundOptions): Check {
  const admitted = new Set(options.admittedOrigins);
  const ports = new Set(['', ...(options.extraPorts ?? []).map(String)]);
  return (spelled) => {
    if (spelled.length > urlLengthMax) refuse('the URL is too long');
    const url = URL.canParse(spelled) ? new URL(spelled) : refuse('not a URL');
    // Before the origin is looked at: a blob: URL has the origin of the page that made it.
    if (url.protocol !== 'https:' && url.protocol !== 'http:') refuse('only https URLs are read');
    if (url.username || url.password) refuse('URLs carry no credentials');
    url.hash = '';
    if (admitted.has(url.origin)) return url;
    if (url.protocol !== 'https:') refuse('only https URLs are read');
    if (!ports.has(url.port)) refuse('only the standard port is read');
    const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.+$/, '');
    if (isIP(host) ? !isPublicAddress(host) : privateNames.test(host)) refuse(notPublic);
    return url;
  };
}

/** See `Outbound`. */
export function createOutbound(options: OutboundOptions): Outbound {
  const admitted = new Set(options.admittedOrigins);
  const check = createCheck(options);
  const resolve = guardName(options.resolve ?? resolveByNameServer);
  const guarded = guardedAgent(resolve);
  const open = new Agent({
    keepAliveTimeout: 10_000,
    connections: 256,
    connect: { timeout: 5000 },
  });
  const dispatcherOf = (url: URL): Agent => (admitted.has(url.origin) ? open : guarded);

  async function openHop(
    url: URL,
    { signal, range }: { signal: AbortSignal; range: FetchLimits['range'] },
  ): Promise<Dispatcher.ResponseData> {
    try {
      return await request(url, {
        dispatcher: dispatcherOf(url),
        method: 'GET',
        // No compression: a small answer must not become a large one.
        headers: {
          'accept-encoding': 'identity',
          'user-agent': 'studio-gateway',
          ...(range && { range: `bytes=${range.first}-${range.last}` }),
        },
        signal,
      });
    } catch (error) {
      if (error instanceof OutboundError) throw error;
      throw new OutboundError('unreachable', 'the URL could not be read');
    }
  }

  return {
    check,
    post: createPost({ check, dispatcherOf }),
    async fetch(spelled, limits) {
      const deadline = AbortSignal.timeout(limits.timeoutMs);
      const signal = limits.signal ? AbortSignal.any([deadline, limits.signal]) : deadline;
      let url = check(spelled);
      for (let hop = 0; hop <= redirectsMax; hop += 1) {
        // oxlint-disable-next-line no-await-in-loop -- the next hop is known only from this one
        const answer = await openHop(url, { signal, range: limits.range });
        const location = answer.headers['location'];
        if (!redirectStatuses.has(answer.statusCode) || typeof location !== 'string') {
          return admit(answer, {
            url,
            bytesMax: limits.bytesMax,
            inPart: limits.range !== undefined,
          });
        }
        discard(answer);
        if (!URL.canParse(location, url.href)) refuse('not a URL');
        url = check(new URL(location, url.href).href);
      }
      return refuse(`more than ${redirectsMax} redirects`);
    },
    async vet(spelled) {
      const url = check(spelled);
      if (!admitted.has(url.origin) && !isIP(url.hostname.replace(/^\[|\]$/g, ''))) {
        await resolved(url.hostname, resolve);
      }
      return url;
    },
  };
}

/** Waits until a name has resolved to public addresses only, but not for long. */
async function resolved(host: string, resolve: ResolveName): Promise<void> {
  const timer = new AbortController();
  const late = delay(vetTimeoutMs, undefined, { signal: timer.signal }).then(() => {
    throw new OutboundError('unreachable', 'the host name does not resolve');
  });
  try {
    await Promise.race([resolve(host), late]);
  } finally {
    late.catch(() => {});
    timer.abort();
  }
}

/** Cuts an answer that nobody reads; its stream fails into nowhere. */
function discard(answer: Dispatcher.ResponseData): void {
  answer.body.on('error', () => {}).destroy();
}

function admit(
  answer: Dispatcher.ResponseData,
  limits: { url: URL; bytesMax: number; inPart: boolean },
): FetchedBody {
  const fail = (error: OutboundError): never => {
    discard(answer);
    throw error;
  };
  const rangeOfBytes = limits.inPart ? partOf(answer) : null;
  if (answer.statusCode !== 200 && rangeOfBytes === null) {
    fail(new OutboundError('status', `the URL answered ${answer.statusCode}`, answer.statusCode));
  }
  const encoding = answer.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity') {
    fail(new OutboundError('broken', 'the answer is compressed although that was declined'));
  }
  const length = answer.headers['content-length'];
  if (typeof length === 'string' && Number(length) > limits.bytesMax) {
    fail(new OutboundError('too_large', `the file has more than ${limits.bytesMax} bytes`));
  }
  const type = answer.headers['content-type'];
  return {
    body: Readable.from(capped(answer.body, limits.bytesMax), { objectMode: false }),
    contentType: typeof type === 'string' ? type : null,
    finalUrl: limits.url.href,
    rangeOfBytes,
  };
}

/** The size of the file that a partial answer is a part of; null for other answers. */
function partOf(answer: Dispatcher.ResponseData): number | null {
  const header = answer.headers['content-range'];
  if (answer.statusCode !== 206 || typeof header !== 'string') return null;
  const [, total] = /^bytes \d+-\d+\/(\d{1,15})$/.exec(header) ?? [];
  return total === undefined ? null : Number(total);
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
