/** Money: what a credit is worth, what an organization may use, how often promises are looked after. */
import { z } from 'zod';
import { count } from './values.ts';

/** See the file's head. */
export const moneyVariables = {
  USD_PER_CREDIT: z.coerce.number().positive().default(0.01),
  /** Studio credits an organization may use in six hours; absent = no limit. */
  WINDOW_ALLOWANCE_CREDITS: z.coerce.number().positive().optional(),
  /** How often the sweeper asks whether an open reservation still has a running workflow. */
  RESERVATION_TTL_MS: count(1000, 86_400_000).default(120_000),
  SWEEP_INTERVAL_MS: count(100, 3_600_000).default(10_000),
  /** How often a worker checks every promise about money and results; 0 = never. */
  AUDIT_INTERVAL_MS: count(0, 86_400_000).default(600_000),
};
