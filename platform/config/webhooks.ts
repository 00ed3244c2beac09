/** Webhooks of callers: how long a receiver may take, and when it is tried again. */
import { z } from 'zod';
import { count } from './values.ts';

const delayList = z
  .string()
  .transform((value) => value.split(',').map(Number))
  .refine(
    (list) => list.length <= 50 && list.every((ms) => ms >= 0 && ms <= 86_400_000),
    'must be at most 50 waits of at most a day each, with commas between',
  );

/** See the file's head. */
export const webhookVariables = {
  /** How long a caller's receiver may take for a webhook. */
  WEBHOOK_TIMEOUT_MS: count(100, 60_000).default(15_000),
  /** Waits between the attempts at a webhook: together 51.7 hours. */
  WEBHOOK_RETRY_DELAYS_MS: delayList.default(
    [5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400].map((s) => s * 1000),
  ),
};
