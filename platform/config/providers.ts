/** Providers of Studio: how long they are waited for. What each needs itself is in activities/providers/. */
import { count, originList } from './values.ts';

/** See the file's head. */
export const providerVariables = {
  /** Origins that the outbound guard admits although their address is private (sandbox, tests). */
  ALLOW_PRIVATE_NETWORK_ORIGINS: originList,
  /**
   * The longest wait before a provider that has not notified is first asked; by default three times as
   * long as the model takes as a rule. Short where notifications cannot reach this gateway.
   */
  FIRST_CHECK_MAX_MS: count(50, 3_600_000).default(3_600_000),
  /** How long work may take before the job is given up, by medium. */
  IMAGE_DEADLINE_MS: count(1000, 86_400_000).default(600_000),
  VIDEO_DEADLINE_MS: count(1000, 86_400_000).default(3_600_000),
  AUDIO_DEADLINE_MS: count(1000, 86_400_000).default(900_000),
  /** How long to wait for a provider's word once an outcome is unknown. */
  OUTCOME_WAIT_MS: count(1000, 86_400_000).default(300_000),
};
