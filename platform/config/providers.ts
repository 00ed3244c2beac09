/** Providers of Studio: keys, addresses, how many calls at once, how long they are waited for. */
import { z } from 'zod';
import { count, originList } from './values.ts';

/** See the file's head. */
export const providerVariables = {
  FAL_KEY: z.string().min(8),
  FAL_QUEUE_URL: z.url().default('https://queue.fal.run'),
  FAL_JWKS_URL: z.url().default('https://rest.fal.ai/.well-known/jwks.json'),
  FAL_CONCURRENCY: count(1, 2000).default(200),
  /** The second route of some image models; without a key they have the first one only. */
  OPENAI_IMAGES_API_KEY: z.string().min(8).optional(),
  OPENAI_IMAGES_BASE_URL: z.url().default('https://api.openai.com/v1'),
  OPENAI_IMAGES_CONCURRENCY: count(1, 2000).default(20),
  ELEVENLABS_API_KEY: z.string().min(8),
  ELEVENLABS_BASE_URL: z.url().default('https://api.elevenlabs.io'),
  /** Calls at the same time per worker process; the provider's plan allows few in all. */
  ELEVENLABS_CONCURRENCY: count(1, 2000).default(5),
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
