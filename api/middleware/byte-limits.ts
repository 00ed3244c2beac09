/**
 * Limits the bytes that open requests occupy: per organization, or per IP address for requests
 * without a key, and in the whole process.
 */
import { GatewayError } from '../../domain/errors.ts';
import type { ByteBudget, ByteHold, ExceededLimit } from '../../platform/byte-budget.ts';
import type { ByteKind, Context, CountedBytes, Middleware } from '../context.ts';

type BudgetKey = `${ByteKind} ${string}`;

const retryAfterSeconds = 1;

/**
 * Creates the middleware that adds `countBytes` and `releaseBytes` to the state of each request.
 */
export function limitBytes(budgets: Record<ByteKind, ByteBudget>): Middleware {
  return async (ctx, next) => {
    const holds = new Map<BudgetKey, ByteHold>();
    ctx.state.countBytes = ({ kind, bytes, owner = findByteOwner(ctx) }) => {
      const key: BudgetKey = `${kind} ${owner}`;
      const hold = holds.get(key) ?? budgets[kind].open(owner);
      holds.set(key, hold);
      return hold.add(bytes);
    };
    ctx.state.releaseBytes = (kind) => {
      for (const [key, hold] of holds) if (key.startsWith(`${kind} `)) hold.release();
    };
    try {
      await next();
    } finally {
      for (const hold of holds.values()) hold.release();
    }
  };
}

/** Returns the organization of a request, or the client's IP address on routes without a key. */
export function findByteOwner({ state, ip }: Context): string {
  // The type declares `caller` on every route, but a route without a key has none.
  const caller = state.caller as Context['state']['caller'] | undefined;
  return caller?.organizationId ?? `address ${ip}`;
}

/**
 * Counts bytes of a request until the request ends.
 * @throws GatewayError 429 if the open requests of the organization or IP address occupy too many
 * bytes, SERVICE_UNAVAILABLE if all open requests of the process occupy too many
 */
export function countBytes(ctx: Context, bytes: CountedBytes): void {
  const exceededLimit = ctx.state.countBytes(bytes);
  if (exceededLimit) throw createBudgetError(exceededLimit);
}

function createBudgetError(exceededLimit: ExceededLimit): GatewayError {
  return exceededLimit === 'owner'
    ? new GatewayError(
        'Rate limit exceeded. Please slow down.',
        'The open requests of this organization or IP address have too many bytes. Wait until some of them have ended.',
        { retryAfterSeconds },
      )
    : new GatewayError(
        'SERVICE_UNAVAILABLE',
        'The open requests of this server have too many bytes at the moment.',
        { retryAfterSeconds },
      );
}
