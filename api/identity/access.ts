/** Who calls: key → organization, role, scopes and the state of the rate window, in one round trip. */
import { sql } from 'slonik';
import { z } from 'zod';
import type { JsonObject } from '../../domain/json.ts';
import { createBatcher } from '../../platform/batch.ts';
import type { DatabasePool } from '../../platform/database.ts';
import { isApiKey, macOfKey } from './key-format.ts';

/** All key scopes (design §7). */
export const scopes = [
  'chat',
  'models:read',
  'keys:read',
  'keys:write',
  'usage:read',
  'storage:write',
  'studio:image',
  'studio:video',
  'studio:audio',
  'studio:read',
] as const;

/** What a key may do. */
export type Scope = (typeof scopes)[number];

/** A caller whose key was found, and the count of its requests in this minute. */
export interface Caller {
  keyId: string;
  organizationId: string;
  memberId: string;
  role: 'owner' | 'admin' | 'member' | 'viewer';
  scopes: Scope[];
  /** Null: all models. */
  allowedModels: string[] | null;
  organizationStatus: 'active' | 'suspended';
  /** Requests of this key in the current minute, this one included. */
  hits: number;
  /** Unix seconds at which the minute ends, by the database's clock. */
  resetAtSeconds: number;
  nowMs: number;
}

/** Rate buckets: polls do not eat up the requests that cost. */
export type RateBucket = 'requests' | 'polls';

/** Finds callers. */
export interface Access {
  /** Null when the key is malformed, unknown, expired or revoked; that counts as no request. */
  admit: (key: string, bucket: RateBucket) => Promise<Caller | null>;
}

const answers = z.object({ answers: z.custom<(Caller | null)[]>() });

/** Access over a pool; no cache, so a revoked key is refused everywhere at once. */
export function createAccess(pool: DatabasePool, pepper: string): Access {
  const admitOne = createBatcher<JsonObject, Caller | null>({
    name: 'access',
    sizeMax: 200,
    parallelMax: 2,
    run: (requests) =>
      pool.oneFirst(sql.type(answers)`SELECT admit_requests(${sql.jsonb(requests)}) AS answers`),
  });
  return {
    async admit(key, bucket) {
      if (!isApiKey(key)) return null;
      return admitOne({ mac: macOfKey(key, pepper), bucket });
    },
  };
}
