/** Byte limits: gives each request holds on the budgets of the process, and releases them after the response. */
import { GatewayError } from '../../domain/errors.ts';
import type { ByteBudget, ByteHold, ExceededBound } from '../../platform/byte-budget.ts';
import type { Context, Middleware } from '../context.ts';

/** Kinds of bytes: request bodies in memory, files in the spool, and stream text kept for a replay. */
export type ByteKind = 'body' | 'spool' | 'keptText';

/** Bytes to hold for a request. */
export interface HeldBytes {
  kind: ByteKind;
  bytes: number;
  /**
   * Owner of the bytes; absent: the organization of the request, or the client's address on open
   * routes.
   */
  owner?: string;
}

type HoldName = `${ByteKind} ${string}`;

const retryAfterSeconds = 1;

/** Gives each request a function that holds bytes until the request is finished. */
export function limitBytes(budgets: Record<ByteKind, ByteBudget>): Middleware {
  return async (ctx, next) => {
    const holds = new Map<HoldName, ByteHold>();
    ctx.state.holdBytes = ({ kind, bytes, owner = ownerOf(ctx) }) => {
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

/** Returns the owner of a request's bytes: its organization, or the client's address on open routes. */
function ownerOf({ state, ip }: Context): string {
  // At run time, requests of open routes have no caller, although the type says so.
  const caller = state.caller as Context['state']['caller'] | undefined;
  return caller?.organizationId ?? `address ${ip}`;
}

/**
 * Holds bytes of a request.
 * @throws GatewayError 429 if the owner holds too many bytes, SERVICE_UNAVAILABLE if the process does
 */
export function holdBytes(ctx: Context, held: HeldBytes): void {
  const exceeded = ctx.state.holdBytes(held);
  if (exceeded) throw tooManyBytes(exceeded);
}

function tooManyBytes(exceeded: ExceededBound): GatewayError {
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
