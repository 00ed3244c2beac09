/**
 * Shares of a process in what requests hold (docs/decisions/0009-isolation.md). A request holds a
 * place, a turn while it reads, and its bytes, until the response has closed. Their owner is the
 * organization of the request. Requests with browser tokens have an owner of their own for each organization, so
 * that they take nothing from its API keys. The owner of a request without a key is its IP address.
 */
import { GatewayError } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import type { Config } from '../../platform/config.ts';
import { createShares, type ExceededLimit, type Hold, type Shares } from '../../platform/shares.ts';
import type { ByteKind, Context, Middleware } from '../context.ts';

/** Bytes of each request that count only toward its organization, so that small ones always fit. */
const smallBytesMax = 64 * 1024;
/**
 * Number of reads that the process answers at the same time. A read of a long list takes 30 ms of
 * CPU. Another organization waits for at most one read of each turn at each of its steps.
 */
const turnsMax = 4;
/** Maximum time that a read waits for its turn, in milliseconds. */
const turnWaitMs = 15_000;
/**
 * Number of requests that an organization may have open while the event loop is late; further ones
 * are rejected, so that the process recovers.
 */
const placesWhileLateMax = 64;
/** Number of requests that an end user may have open with browser tokens; it shares the places with others. */
const endUserPlacesMax = 64;
const sampleMs = 100;
/** Delay of a sample above which the event loop is late, in milliseconds. */
const lateMs = 1000;
/** Number of late samples in a row; a single pause is not an overload. */
const lateSamplesMin = 3;

/** Shares of each kind of bytes. */
type ByteShares = Record<ByteKind, Shares>;

/** Creates the shares of a process in what requests hold. */
export function createRequestShares(
  config: Pick<Config, 'REQUESTS_MAX' | 'BODY_BYTES_MAX' | 'SPOOL_BYTES_MAX'>,
) {
  const places = createShares(config.REQUESTS_MAX);
  const endUserPlaces = createShares(config.REQUESTS_MAX);
  const turns = createShares(turnsMax);
  const memory = createShares(config.BODY_BYTES_MAX, smallBytesMax);
  const spool = createShares(config.SPOOL_BYTES_MAX, smallBytesMax);
  const loop = watchEventLoop();

  return {
    bytes: { body: memory, response: memory, replayText: memory, spool } satisfies ByteShares,
    /**
     * Takes a place until the response has closed.
     * @throws GatewayError 429 if the organization has its share of the places,
     * SERVICE_UNAVAILABLE if others leave too few or the event loop is late
     */
    takePlace(ctx: Context): void {
      const owner = findOwner(ctx);
      const place = places.open(owner);
      if (loop.isLate() && places.countHeld(owner) >= placesWhileLateMax) {
        throw createShareError(owner, 'free', 'requests');
      }
      const exceeded = place.add(1);
      if (exceeded) throw createShareError(owner, exceeded, 'requests');
      onceClosed(ctx, place.release);
      const { token } = ctx.state.caller ?? {};
      if (!token) return;
      const endUser = `${owner}/${token.endUser}`;
      if (endUserPlaces.countHeld(endUser) >= endUserPlacesMax)
        throw createShareError(owner, 'owner', 'requests');
      const held = endUserPlaces.open(endUser);
      held.force(1);
      onceClosed(ctx, held.release);
    },
    /**
     * Waits for a turn. Returns the function that ends it.
     * @throws GatewayError SERVICE_UNAVAILABLE if others take too long
     */
    async takeTurn(ctx: Context): Promise<() => void> {
      const owner = findOwner(ctx);
      const endTurn = await turns.enter(owner, turnWaitMs);
      if (!endTurn) throw createShareError(owner, 'free', 'requests');
      return endTurn;
    },
  };
}

/** Samples the delay of the event loop. The timer does not keep the process alive. */
function watchEventLoop() {
  let sampledAtMs = performance.now();
  let lateSamples = 0;
  setInterval(() => {
    const now = performance.now();
    lateSamples = now - sampledAtMs - sampleMs > lateMs ? lateSamples + 1 : 0;
    sampledAtMs = now;
  }, sampleMs).unref();
  return { isLate: (): boolean => lateSamples >= lateSamplesMin };
}

/** Runs a function when the response of a request has closed; at once if it has. */
function onceClosed({ res, state }: Pick<Context, 'res' | 'state'>, run: () => void): void {
  if (res.closed) return run();
  if (state.closings) {
    state.closings.push(run);
    return;
  }
  // One listener runs all functions, because Node.js warns of more than ten listeners.
  const functions = [run];
  state.closings = functions;
  res.once('close', () => {
    for (const close of functions) close();
  });
}

/** Returns a signal that aborts when the response of a request has closed. */
export function closedSignal(ctx: Pick<Context, 'res' | 'state'>): AbortSignal {
  const controller = new AbortController();
  onceClosed(ctx, () => controller.abort());
  return controller.signal;
}

/**
 * Creates the middleware that adds `countBytes` and `releaseBytes` to the state of each request,
 * and counts the bytes of its response. The bytes are released when the request was handled and its
 * response has closed.
 */
export function shareBytes(shares: ByteShares): Middleware {
  return async (ctx, next) => {
    const holds = new Map<string, { kind: ByteKind; hold: Hold }>();
    function find(kind: ByteKind, owner: string): Hold {
      const key = `${kind} ${owner}`;
      const { hold } = holds.get(key) ?? { hold: shares[kind].open(owner) };
      holds.set(key, { kind, hold });
      return hold;
    }
    ctx.state.countBytes = ({ kind, bytes, owner = findOwner(ctx) }) =>
      find(kind, owner).add(bytes);
    ctx.state.releaseBytes = (released) => {
      for (const { kind, hold } of holds.values()) if (kind === released) hold.release();
    };
    try {
      await next();
      countResponse(ctx, find('response', findOwner(ctx)));
    } finally {
      onceClosed(ctx, () => {
        for (const { hold } of holds.values()) hold.release();
      });
    }
  };
}

/**
 * Counts the bytes of a response that waits in memory for its reader. A response to a read is
 * rejected if its organization has its share; any other response is sent, because its request has
 * changed something. Streams and constants hold no bytes of their own.
 */
function countResponse(ctx: Context, hold: Hold): void {
  const { body } = ctx;
  if (typeof body !== 'string' && (!Buffer.isBuffer(body) || ctx.state.isConstant)) return;
  const bytes = Buffer.byteLength(body);
  const exceeded = hold.add(bytes);
  if (!exceeded) return;
  if (ctx.method === 'GET') throw createShareError(findOwner(ctx), exceeded, 'bytes');
  hold.force(bytes);
}

/** Paths of the probes, which have shares of their own: other requests must not delay them. */
const probePaths = new Set(['/healthz', '/readyz']);

/** Prefix of the owner of what the requests with browser tokens of an organization hold. */
const tokensPrefix = 'tokens ';

/** Returns the owner of what the requests of an organization hold, with its API keys or with browser tokens. */
export const ownerOf = (organizationId: string, hasToken: boolean): string =>
  hasToken ? `${tokensPrefix}${organizationId}` : organizationId;

/** Returns the owner of what a request holds: its organization, its organization's tokens, or its IP address. */
export function findOwner({ state, ip, path }: Context): string {
  // The types declare `caller` and `operator` on every route, but an open route has none.
  const { caller, operator } = state as Partial<Context['state']>;
  if (caller) return ownerOf(caller.organizationId, Boolean(caller.token));
  return operator ? 'operators' : `${probePaths.has(path) ? 'probe' : 'address'} ${ip}`;
}

/**
 * Counts bytes of a request until its response has closed.
 * @throws GatewayError 429 if the open requests of the organization have too many bytes,
 * SERVICE_UNAVAILABLE if all open requests of the process have too many
 */
export function countBytes(
  ctx: Context,
  bytes: Parameters<Context['state']['countBytes']>[0],
): void {
  const exceeded = ctx.state.countBytes(bytes);
  if (exceeded) throw createShareError(bytes.owner ?? findOwner(ctx), exceeded, 'bytes');
}

const messages = {
  requests: {
    owner: 'This organization has too many open requests. Wait until some of them have ended.',
    free: 'This server has too many open requests at the moment.',
  },
  bytes: {
    owner:
      'The open requests of this organization have too many bytes. Wait until some of them have ended.',
    free: 'The open requests of this server have too many bytes at the moment.',
  },
};

/** Creates the error of a request without a share. Only an organization can have too much itself. */
function createShareError(
  owner: string,
  exceeded: ExceededLimit,
  held: keyof typeof messages,
): GatewayError {
  const retry = { retryAfterSeconds: 1 };
  const isOrganization = isId('organization', owner) || owner.startsWith(tokensPrefix);
  return exceeded === 'owner' && isOrganization
    ? new GatewayError('Rate limit exceeded. Please slow down.', messages[held].owner, retry)
    : new GatewayError('SERVICE_UNAVAILABLE', messages[held].free, retry);
}
