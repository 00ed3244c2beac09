/** Counts the bytes that requests hold against the byte budgets of the process. */
import { GatewayError } from '../../domain/errors.ts';
import type { ByteBudget, ByteHold, ExceededLimit } from '../../platform/byte-budget.ts';
import type { ByteKind, Context, HeldBytes, Middleware } from '../context.ts';

type HoldName = `${ByteKind} ${string}`;

const retryAfterSeconds = 1;

/** Makes the middleware that adds `holdBytes` and `releaseBytes` to the state of each request. */
export function limitBytes(budgets: Record<ByteKind, ByteBudget>): Middleware {
  return async (ctx, next) => {
    const holds = new Map<HoldName, ByteHold>();
    ctx.state.holdBytes = ({ kind, bytes, owner = findByteOwner(ctx) }) => {
      const name: HoldName = `${kind} ${owner}`;
      const hold = holds.get(name) ?? budgets[kind].open(owner);
      holds.set(name, hold);
      return hold.add(bytes);
    };
    ctx.state.releaseBytes = (kind) => {
      for (const [name, hold] of holds) if (name.startsWith(`${kind} `)) hold.release();
    };
    try {
      await next();
    } finally {
      for (const hold of holds.values()) hold.release();
    }
  };
}

/** Returns the organization of a request, or the client's address on routes without a key. */
export function findByteOwner({ state, ip }: Context): string {
  // The type declares `caller` on every route, but a route without a key has none.
  const caller = state.caller as Context['state']['caller'] | undefined;
  return caller?.organizationId ?? `address ${ip}`;
}

/**
 * Counts bytes of a request until the request is finished.
 * @throws GatewayError 429 if the owner holds too many bytes, SERVICE_UNAVAILABLE if the process
 * holds too many
 */
export function holdBytes(ctx: Context, held: HeldBytes): void {
  const exceeded = ctx.state.holdBytes(held);
  if (exceeded) throw makeBytesError(exceeded);
}

function makeBytesError(exceeded: ExceededLimit): GatewayError {
  return exceeded === 'owner'
    ? new GatewayError(
        'Rate limit exceeded. Please slow down.',
        'This organization sends too many bytes at the same time.',
        { retryAfterSeconds },
      )
    : new GatewayError('SERVICE_UNAVAILABLE', 'The server receives too many bytes at the moment.', {
        retryAfterSeconds,
      });
}
