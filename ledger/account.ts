/** Reads an organization's account: its balance and the use of its six-hour window. */
import { sql } from 'slonik';
import { z } from 'zod';

/** Schema of the state of an account. Amounts are micro-credits. */
export const accountState = z.object({
  posted: z.number(),
  reserved: z.number(),
  windowLimit: z.number().nullable(),
  /** Current six-hour window; null if no window is open. */
  window: z.object({ used: z.number(), startedAtMs: z.number(), resetAtMs: z.number() }).nullable(),
});

/** SQL columns of `accountState`, for a statement in which `a` is the account row. */
export const accountColumns = sql.fragment`a.posted, a.reserved, a.window_limit AS "windowLimit",
  CASE WHEN ledger_window_end(a.window_started_at) > now() THEN jsonb_build_object(
    'used', a.window_used, 'startedAtMs', unix_ms(a.window_started_at),
    'resetAtMs', unix_ms(ledger_window_end(a.window_started_at))) END AS window`;
