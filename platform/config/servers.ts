/** Postgres and Temporal: where they are, how they are reached, what is kept there. */
import { z } from 'zod';
import { readPayloadKeys } from '../payload-codec.ts';
import { count, flag, originList } from './values.ts';

const payloadKeys = z
  .string()
  .optional()
  .transform((text, context) => {
    try {
      return text === undefined ? [] : readPayloadKeys(text);
    } catch (error) {
      context.addIssue({ code: 'custom', message: error instanceof Error ? error.message : '' });
      return z.NEVER;
    }
  });

/** What seals the payloads that Temporal keeps. */
export const payloadVariables = {
  /** Jobs that a process starts at the same time; the others wait their turn. */
  TEMPORAL_STARTS_MAX: count(1, 10_000).default(16),
  /** How long a job waits for its turn; after that its request is refused, and nothing was started. */
  TEMPORAL_START_WAIT_MS: count(0, 600_000).default(20_000),
  /** `id:key,…`: keys that seal what Temporal keeps, newest first (docs/payload-encryption.md). */
  PAYLOAD_KEYS: payloadKeys,
  /** False: the keys only open what was sealed before. */
  PAYLOAD_ENCRYPTION: flag.optional(),
};

/** What a tool needs that only speaks to Temporal. */
export const temporalVariables = {
  TEMPORAL_ADDRESS: z.string().regex(/^[^\s/]+:\d+$/, 'must be host:port'),
  TEMPORAL_NAMESPACE: z.string().min(1).default('default'),
  TEMPORAL_TLS: flag.default(false),
  TEMPORAL_TLS_CERT_PATH: z.string().optional(),
  TEMPORAL_TLS_KEY_PATH: z.string().optional(),
  TEMPORAL_TLS_CA_PATH: z.string().optional(),
  TEMPORAL_API_KEY: z.string().optional(),
  ...payloadVariables,
};

/** See the file's head. */
export const serverVariables = {
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }),
  DATABASE_POOL_MAX: count(2, 200).default(12),
  ...temporalVariables,
  /** Origins of web UIs that may ask the codec endpoint. */
  TEMPORAL_UI_ORIGINS: originList,
  /** Starts the names of all task queues: several stacks can share one namespace. */
  TASK_QUEUE_PREFIX: z
    .string()
    .regex(/^[a-z0-9-]*$/)
    .default(''),
  /** Names the deployment that workers are versions of (docs/deploys.md); absent: unversioned. */
  WORKER_DEPLOYMENT_NAME: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,100}$/, 'must be letters, digits, - and _')
    .optional(),
  /** The version of this process's workers. */
  WORKER_BUILD_ID: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,100}$/, 'must be letters, digits, ., - and _')
    .optional(),
  /** What running jobs do when another version becomes current: move to it, or end where they began. */
  WORKER_VERSIONING: z.enum(['AUTO_UPGRADE', 'PINNED']).default('AUTO_UPGRADE'),
};
