/**
 * The one guarded fetch for every URL that a caller or a provider supplies (design §9). It decides on
 * bytes of addresses, not on spellings: literals are checked before connecting, names by every address
 * they resolve to, and the connected address once more. Redirects are few and checked like the first hop.
 */
import { isIP } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { Agent, request, type Dispatcher } from 'undici';
import {
  guardName,
  guardedAgent,
  isPublicHost,
  notPublic,
  type ResolveName,
} from './outbound-addresses.ts';
import { OutboundError, refuse } from './outbound-error.ts';
import { createPost, type PostAnswer, type PostMessage } from './outbound-post.ts';

export { OutboundError };

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

type Check = Outbound['check'];

function createCheck(admitted: ReadonlySet<string>, extraPorts: readonly number[]): Check {
  const ports = new Set(['', ...extraPorts.map(String)]);
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
    if (!isPublicHost(host)) refuse(notPublic);
    return url;
  };
}

/** See `Outbound`. */
export function createOutbound(options: OutboundOptions): Outbound {
  const admitted = new Set(options.admittedOrigins);
  const check = createCheck(admitted, options.extraPorts ?? []);
  const resolve = guardName(options.resolve);
  const guarded = guardedAgent(resolve);
  const open = new Agent({
    keepAliveTimeout: 10_000,
    connections: 256,
    connect: { timeout: 5000 },
  });
  const dispatcherOf = (url: URL): Agent => (admitted.has(url.origin) ? open : guarded);

  async function openHop(url: URL, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    try {
      return await request(url, {
        dispatcher: dispatcherOf(url),
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

  return {
    check,
    post: createPost({ check, dispatcherOf }),
    async fetch(spelled, limits) {
      const deadline = AbortSignal.timeout(limits.timeoutMs);
      const signal = limits.signal ? AbortSignal.any([deadline, limits.signal]) : deadline;
      let url = check(spelled);
      for (let hop = 0; hop <= redirectsMax; hop += 1) {
        const answer = await openHop(url, signal);
        const location = answer.headers['location'];
        if (!redirectStatuses.has(answer.statusCode) || typeof location !== 'string') {
          return admit(answer, url, limits.bytesMax);
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

function admit(answer: Dispatcher.ResponseData, url: URL, bytesMax: number): FetchedBody {
  const fail = (error: OutboundError): never => {
    discard(answer);
    throw error;
  };
  if (answer.statusCode !== 200) {
    fail(new OutboundError('status', `the URL answered ${answer.statusCode}`, answer.statusCode));
  }
  const encoding = answer.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity') {
    fail(new OutboundError('broken', 'the answer is compressed although that was declined'));
  }
  const length = answer.headers['content-length'];
  if (typeof length === 'string' && Number(length) > bytesMax) {
    fail(new OutboundError('too_large', `the file has more than ${bytesMax} bytes`));
  }
  const type = answer.headers['content-type'];
  return {
    body: Readable.from(capped(answer.body, bytesMax), { objectMode: false }),
    contentType: typeof type === 'string' ? type : null,
    finalUrl: url.href,
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
