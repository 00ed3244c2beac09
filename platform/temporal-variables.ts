/** Environment variables of the connection to Temporal, job starts and payload encryption. */
import { z } from 'zod';
import { readPayloadKeys } from './payload-codec.ts';
import { count, flag, headerSecret, matching } from './variable-types.ts';

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

/** Settings of job starts and of payload encryption in Temporal. */
export const payloadVariables = {
  /** Maximum number of simultaneous workflow starts per process; further starts wait. */
  TEMPORAL_STARTS_MAX: count(1, 10_000).default(16),
  /** Maximum wait for other workflow starts; then the request is rejected and no job exists. */
  TEMPORAL_START_WAIT_MS: count(0, 600_000).default(20_000),
  /**
   * Encryption keys of Temporal payloads in the format `id:key,…`, newest first
   * (docs/payload-encryption.md).
   */
  PAYLOAD_KEYS: payloadKeys,
  /** True if new payloads are encrypted. If false, PAYLOAD_KEYS only decrypt existing payloads. */
  PAYLOAD_ENCRYPTION: flag.optional(),
};

/** Settings of the connection to Temporal; some tools need only these. */
export const temporalVariables = {
  TEMPORAL_ADDRESS: matching(/^[^\s/]+:\d{1,5}$/, 'host:port'),
  TEMPORAL_NAMESPACE: z.string().default('default'),
  TEMPORAL_TLS: flag.default(false),
  TEMPORAL_TLS_CERT_PATH: z.string().optional(),
  TEMPORAL_TLS_KEY_PATH: z.string().optional(),
  TEMPORAL_TLS_CA_PATH: z.string().optional(),
  TEMPORAL_API_KEY: headerSecret.optional(),
  ...payloadVariables,
};
