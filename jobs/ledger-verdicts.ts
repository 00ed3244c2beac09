/** The ledger's words on a job's money, as workflow, activities and API hear them. Amounts in micro-credits. */

/** Micro-credits of an organization; `available` = posted − reserved. */
export interface Balance {
  posted: number;
  reserved: number;
  available: number;
}

/** The ledger's word on a reservation. */
export type ReserveVerdict =
  | { verdict: 'reserved'; repeated: boolean; state: string; createdAt: string; balance: Balance }
  | { verdict: 'insufficient_credits'; required: number; balance: Balance }
  | { verdict: 'window_exhausted'; resetAt: string; now: string; balance: Balance };

/** A verdict that is no reservation. */
export type Refusal = Exclude<ReserveVerdict, { verdict: 'reserved' }>;

/** What became of a reservation; `state` is its state now, whoever settled it. */
export type SettleVerdict =
  | {
      verdict: 'settled' | 'already_settled';
      state: 'charged' | 'released';
      charged: number;
      balance: Balance;
    }
  | { verdict: 'not_reserved' };
