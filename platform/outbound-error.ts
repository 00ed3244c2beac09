/** Why a foreign URL was not fetched. */

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

/** @throws OutboundError refused */
export function refuse(why: string): never {
  throw new OutboundError('refused', why);
}
