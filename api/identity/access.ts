/** Admission of requests: finds the caller and the rate window of a key in one round trip. */
import { sql } from 'slonik';
import { z } from 'zod';
import { createBatcher } from '../../platform/batch.ts';
import type { Config } from '../../platform/config.ts';
import { command, type DatabasePool } from '../../platform/database.ts';
import type { Metrics } from '../../platform/metrics.ts';
import { isApiKey, macOfKey } from './key-format.ts';

/** All key scopes (design §7). */
export const scopes = [
  'chat',
  'models:read',
  'keys:read',
  'keys:write',
  'usage:read',
  'storage:write',
  'files:delete',
  'studio:image',
  'studio:video',
  'studio:audio',
  'studio:read',
] as const;

export type Scope = (typeof scopes)[number];

/** Role of a user in an organization. */
export const role = z.enum(['owner', 'admin', 'member', 'viewer']);
/** Status of an organization; a suspended one is rejected. */
export const organizationStatus = z.enum(['active', 'suspended']);

/** Schema of a caller with the state of its rate window. */
const callerShape = z.object({
  keyId: z.string(),
  organizationId: z.string(),
  memberId: z.string(),
  role: role,
  scopes: z.array(z.enum(scopes)),
  /** Ids of the allowed models; null: all. */
  allowedModels: z.array(z.string()).nullable(),
  organizationStatus: organizationStatus,
  /** Requests of this key in the rate window of one minute, up to this one. */
  hits: z.number(),
  /** End of the window in milliseconds since 1970, by the database's clock. */
  resetAtMs: z.number(),
  nowMs: z.number(),
});
export type Caller = z.infer<typeof callerShape>;

/** Rate buckets of a key: requests, reads of jobs, and requests of its console sessions. */
export type RateBucket = 'requests' | 'polls' | 'console';

const answers = z.object({ answers: z.array(callerShape.nullable()) });

export type Access = ReturnType<typeof createAccess>;

type AccessConfig = Pick<
  Config,
  | 'KEY_PEPPER'
  | 'KEY_PEPPER_PREVIOUS'
  | 'RATE_LIMIT_PER_MINUTE'
  | 'POLL_RATE_LIMIT_PER_MINUTE'
  | 'CONSOLE_RATE_LIMIT_PER_MINUTE'
>;

/**
 * Makes the admission over a pool. Keys under the previous pepper are accepted too, and stored
 * under the new one when they are used.
 */
export function createAccess(pool: DatabasePool, config: AccessConfig, metrics?: Metrics) {
  const { KEY_PEPPER: pepper, KEY_PEPPER_PREVIOUS: previousPepper } = config;
  const limits: Record<RateBucket, number> = {
    requests: config.RATE_LIMIT_PER_MINUTE,
    polls: config.POLL_RATE_LIMIT_PER_MINUTE,
    console: config.CONSOLE_RATE_LIMIT_PER_MINUTE,
  };
  const enqueue = createBatcher<{ mac: string; bucket: RateBucket }, Caller | null>({
    name: 'access',
    metrics,
    sizeMax: 200,
    parallelMax: 2,
    run(requests) {
      const macs = sql.array(
        requests.map(({ mac }) => Buffer.from(mac, 'hex')),
        'bytea',
      );
      const buckets = sql.array(
        requests.map(({ bucket }) => bucket),
        'text',
      );
      return pool.oneFirst(
        sql.type(answers)`SELECT admit_requests(${macs}, ${buckets}) AS answers`,
      );
    },
  });
  const admitMac = (mac: string, bucket: RateBucket): Promise<Caller | null> =>
    enqueue({ mac, bucket });
  return {
    limits,
    /** Admits a request; null for an invalid key, which counts toward no limit. */
    async admit(key: string, bucket: RateBucket): Promise<Caller | null> {
      if (!isApiKey(key)) return null;
      const mac = macOfKey(key, pepper);
      const caller = await admitMac(mac, bucket);
      if (caller || previousPepper === undefined) return caller;
      await changePepper(pool, { from: macOfKey(key, previousPepper), to: mac });
      // Another process may have changed the pepper of the key at the same time.
      return admitMac(mac, bucket);
    },
    /** Admits a request by the MAC of its key, which the row of a session contains. */
    admitMac,
  };
}

/** Replaces the stored MAC of a key by its MAC under another pepper. */
async function changePepper(pool: DatabasePool, mac: { from: string; to: string }): Promise<void> {
  await pool.query(command`
    UPDATE api_key SET mac = decode(${mac.to}, 'hex') WHERE mac = decode(${mac.from}, 'hex')
      AND NOT EXISTS (SELECT FROM api_key WHERE mac = decode(${mac.to}, 'hex'))`);
}
