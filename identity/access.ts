/**
 * Admission of requests: looks up an API key and counts the request in one round trip to Postgres.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { sql } from 'slonik';
import { z } from 'zod';
import { createBatcher } from '../platform/batch.ts';
import { assert, GatewayError } from '../domain/errors.ts';
import type { Config } from '../platform/config.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import type { Metrics } from '../platform/metrics.ts';

const apiKeyPrefix = 'gk_live_';
/** Prefix of browser tokens. All prefixes have the same length. */
export const browserTokenPrefix = 'gk_user_';
/** Prefix of operators' keys. */
export const operatorKeyPrefix = 'gk_oper_';
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const keyPattern = /^(gk_(?:live|oper|user)_)([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/;

function encodeBase62(value: bigint, length: number): string {
  let remaining = value;
  let digits = '';
  while (digits.length < length) {
    digits = (alphabet[Number(remaining % 62n)] ?? '') + digits;
    remaining /= 62n;
  }
  return digits;
}

/** Generates a secret key, which is returned once and never stored. */
export function generateApiKey(prefix = apiKeyPrefix): string {
  const body = encodeBase62(BigInt(`0x${randomBytes(32).toString('hex')}`), 43);
  return `${prefix}${body}${calculateChecksum(prefix, body)}`;
}

function calculateChecksum(prefix: string, body: string): string {
  return encodeBase62(BigInt(crc32(prefix + body)), 6);
}

/** Returns whether a string is a key with this prefix and a correct checksum. */
export function isApiKey(text: string, expected = apiKeyPrefix): boolean {
  const [, prefix, body = '', sum] = keyPattern.exec(text) ?? [];
  return prefix === expected && calculateChecksum(prefix, body) === sum;
}

/** Calculates the MAC that is stored instead of the key: HMAC-SHA256 with the pepper, in hex. */
export function calculateKeyMac(key: string, pepper: string): string {
  return createHmac('sha256', pepper).update(key).digest('hex');
}

/** Returns the first characters of a key, which identify the key in lists. */
export function extractKeyPrefix(key: string): string {
  return key.slice(0, apiKeyPrefix.length + 4);
}

/** All scopes that an API key can have (docs/keys.md). */
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
/**
 * Scope that a request requires. `studio:*`: any scope with which Studio work is started, because
 * each step of the request requires its own; `bulk:*`: any scope that spends credits, because each item
 * requires its own; `any`: none.
 */
export type RequiredScope = Scope | 'studio:*' | 'bulk:*' | 'any';

const spendsCredits = (scope: Scope): boolean =>
  scope === 'chat' || (scope.startsWith('studio:') && scope !== 'studio:read');

/** Returns whether a key with these scopes has the required scope. */
export const hasScope = (owned: readonly Scope[], required: RequiredScope): boolean =>
  required === 'any' ||
  owned.some((scope) => {
    if (required === 'bulk:*') return spendsCredits(scope);
    return required === 'studio:*' ? scope !== 'chat' && spendsCredits(scope) : scope === required;
  });

/** Role of a user in an organization. */
export const roleSchema = z.enum(['owner', 'admin', 'member', 'viewer']);
/** Status of an organization. Requests of a suspended organization are rejected. */
export const organizationStatusSchema = z.enum(['active', 'suspended']);

/** Owners of rate-limit windows that count a request. */
const windowOwners = ['key', 'user', 'organization'] as const;
interface RateWindow {
  /** Number of the request in the window. */
  hits: number;
  /** Number of requests that the window allows. */
  limit: number;
  /** End of the window in milliseconds since 1970, by the database's clock. */
  resetAtMs: number;
}

const ownerSchema = z.object({
  keyId: z.string(),
  organizationId: z.string(),
  userId: z.string(),
  role: roleSchema,
  scopes: z.array(z.enum(scopes)),
  /** Ids of the models that the key may use. Null if it may use all models. */
  allowedModels: z.array(z.string()).nullable(),
  organizationStatus: organizationStatusSchema,
  /**
   * Browser token of the request, whose maker is the key `keyId`, with its end user. Absent for an API key.
   */
  token: z.object({ tokenId: z.string(), endUser: z.string() }).nullish(),
});
/** Caller with its rate-limit windows, and the time of the database's clock. */
export interface Caller extends z.infer<typeof ownerSchema> {
  windows: Record<(typeof windowOwners)[number], RateWindow>;
  nowMs: number;
}

/** Caller of a request, without the state of its rate limits. */
export type RequestCaller = Omit<Caller, 'windows' | 'nowMs'>;

/**
 * Kinds of requests that have separate rate limits. `polls`: requests that read jobs; `console`:
 * reads of console sessions; `requests`: all others.
 */
const buckets = ['requests', 'polls', 'console'] as const;
export type RateBucket = (typeof buckets)[number];

/** Requests of a batch with the same key, which are counted in the same bucket. */
interface KeyRequests {
  mac: string;
  bucket: RateBucket;
  count: number;
}

const admissionSchema = z.object({
  callers: z.array(
    ownerSchema.extend({
      /** Position of the key among the `KeyRequests` of the batch, from 1. */
      position: z.number(),
      bucket: z.enum(buckets),
      windowOwner: z.string(),
      /** Owners of the other windows of a browser token; those of a key are its user and organization. */
      userWindow: z.string().optional(),
      organizationWindow: z.string().optional(),
      keyLimit: z.number(),
      userLimit: z.number(),
      organizationLimit: z.number(),
    }),
  ),
  /** States of the windows when all requests of the batch are counted. */
  windows: z.array(
    z.object({
      ownerId: z.string(),
      bucket: z.enum(buckets),
      hits: z.number(),
      resetAtMs: z.number(),
    }),
  ),
  nowMs: z.number(),
});
type Admission = z.infer<typeof admissionSchema>;
const admissionRow = z.object({ admission: admissionSchema });

/**
 * Returns the callers of a batch in the order of its requests; null for an invalid key. `positions`
 * has the position of each request's key.
 */
function numberRequests(
  positions: readonly number[],
  { callers, windows, nowMs }: Admission,
): (Caller | null)[] {
  const states = new Map(windows.map((window) => [`${window.ownerId} ${window.bucket}`, window]));
  const owners = new Map(callers.map((caller) => [caller.position, caller]));
  const numberOne = (position: number): Caller | null => {
    const sent = owners.get(position);
    if (!sent) return null;
    const { bucket, windowOwner, userWindow, organizationWindow, ...limited } = sent;
    const { keyLimit, userLimit, organizationLimit, ...owner } = limited;
    const take = (ownerId: string, limit: number, isCounted: boolean): RateWindow => {
      const state = states.get(`${ownerId} ${bucket}`);
      assert(state, `the request is not counted in the window of ${ownerId}`);
      const { hits, resetAtMs } = state;
      if (isCounted) state.hits -= 1;
      return { hits, limit, resetAtMs };
    };
    const key = take(windowOwner, keyLimit, true);
    // The windows of the user and the organization count what the limit of the key lets pass.
    const passes = key.hits <= keyLimit;
    const user = take(userWindow ?? owner.userId, userLimit, passes);
    const organizationOwner = organizationWindow ?? owner.organizationId;
    const organization = take(organizationOwner, organizationLimit, passes);
    return { ...owner, windows: { key, user, organization }, nowMs };
  };
  // A window has counted all requests, so the last request has the number in it.
  return positions.toReversed().map(numberOne).toReversed();
}

/** Counts the requests of a batch by key and bucket. `positions` has the position of each request's key, from 1. */
function groupByKey(requests: readonly Omit<KeyRequests, 'count'>[]) {
  const groups = new Map<string, KeyRequests & { position: number }>();
  const positions = requests.map(({ mac, bucket }) => {
    const name = `${mac} ${bucket}`;
    const sent = groups.get(name) ?? { mac, bucket, count: 0, position: groups.size + 1 };
    sent.count += 1;
    groups.set(name, sent);
    return sent.position;
  });
  return { positions, sent: [...groups.values()] };
}

/** Creates the function that admits a request together with others that arrive at the same time. */
const createAdmissionQueue = (
  observed: { name: string; metrics: Metrics | undefined },
  admit: (groups: ReturnType<typeof groupByKey>) => Promise<(Caller | null)[]>,
) =>
  createBatcher<Omit<KeyRequests, 'count'>, Caller | null>({
    ...observed,
    sizeMax: 200,
    parallelMax: 2,
    run: (requests) => admit(groupByKey(requests)),
  });

export type Access = ReturnType<typeof createAccess>;

type AccessConfig = Pick<
  Config,
  | 'KEY_PEPPER'
  | 'KEY_PEPPER_PREVIOUS'
  | 'RATE_LIMIT_PER_MINUTE'
  | 'POLL_RATE_LIMIT_PER_MINUTE'
  | 'CONSOLE_RATE_LIMIT_PER_MINUTE'
  | 'ORGANIZATION_RATE_FACTOR'
>;

/** State of the rate-limit window that leaves a caller the fewest requests. */
interface RateState {
  limit: number;
  /** Requests that the window still allows. Negative if the request is beyond the limit. */
  remaining: number;
  resetAtMs: number;
}

const toRate = ({ hits, limit, resetAtMs }: RateWindow): RateState => ({
  limit,
  remaining: limit - hits,
  resetAtMs,
});

/** Maximum number of API keys of one user (spec §8), and of the limits that they have together. */
export const keysPerUserMax = 10;

/**
 * Creates the functions that admit requests. A key whose MAC was calculated with the previous
 * pepper is also accepted. Its MAC is then replaced by one with the new pepper.
 */
export function createAccess(pool: DatabasePool, config: AccessConfig, metrics?: Metrics) {
  const { KEY_PEPPER: pepper, KEY_PEPPER_PREVIOUS: previousPepper } = config;
  const bucketDefaults: Record<RateBucket, number> = {
    requests: config.RATE_LIMIT_PER_MINUTE,
    polls: config.POLL_RATE_LIMIT_PER_MINUTE,
    console: config.CONSOLE_RATE_LIMIT_PER_MINUTE,
  };
  const defaults = {
    requests: config.RATE_LIMIT_PER_MINUTE,
    userFactor: keysPerUserMax,
    organizationFactor: config.ORGANIZATION_RATE_FACTOR,
  };
  const admit = (sent: readonly KeyRequests[]): Promise<Admission> => {
    const macs = sent.map(({ mac }) => Buffer.from(mac, 'hex'));
    const bucketNames = sent.map(({ bucket }) => bucket);
    const limits = sent.map(({ bucket }) => bucketDefaults[bucket]);
    const counts = sent.map(({ count }) => count);
    return pool.oneFirst(sql.type(admissionRow)`
      SELECT admit_requests(${sql.array(macs, 'bytea')}, ${sql.array(bucketNames, 'text')},
        ${sql.array(limits, 'int4')}, ${sql.jsonb(defaults)}, ${sql.array(counts, 'int4')}) AS admission`);
  };
  const admitToken = ({ mac, bucket, count }: KeyRequests): Promise<Admission> =>
    pool.oneFirst(sql.type(admissionRow)`
      SELECT admit_token(${sql.binary(Buffer.from(mac, 'hex'))}, ${bucket}, ${bucketDefaults[bucket]},
        ${sql.jsonb(defaults)}, ${count}) AS admission`);
  const enqueue = createAdmissionQueue({ name: 'access', metrics }, async ({ positions, sent }) =>
    numberRequests(positions, await admit(sent)),
  );
  // Tokens are admitted one by one, which needs no locks in the order of all of them.
  const enqueueToken = createAdmissionQueue({ name: 'tokens', metrics }, async (groups) => {
    const callers: (Caller | null)[][] = [];
    for (const one of groups.sent)
      callers.push(numberRequests(Array<number>(one.count).fill(1), await admitToken(one)));
    return groups.positions.map((position) => callers[position - 1]?.shift() ?? null);
  });
  const admitMac = (mac: string, bucket: RateBucket): Promise<Caller | null> =>
    enqueue({ mac, bucket });
  return {
    /** Returns the state of the window that limits a caller most; a key's own if they are equal. */
    findRate({ windows }: Caller): RateState {
      const states = windowOwners.map((owner) => toRate(windows[owner]));
      return states.reduce((least, state) => (state.remaining < least.remaining ? state : least));
    },
    /** Returns the state of the window of the key, or of the end user of a browser token. */
    findOwnRate: ({ windows }: Caller): RateState => toRate(windows.key),
    /** Admits a request. Returns null for an invalid key, whose requests are not counted. */
    async admit(key: string, bucket: RateBucket): Promise<Caller | null> {
      if (isApiKey(key, browserTokenPrefix))
        return enqueueToken({ mac: calculateKeyMac(key, pepper), bucket });
      if (!isApiKey(key)) return null;
      const mac = calculateKeyMac(key, pepper);
      const caller = await admitMac(mac, bucket);
      if (caller || previousPepper === undefined) return caller;
      await replaceMac(pool, { from: calculateKeyMac(key, previousPepper), to: mac });
      // Another process may have replaced the MAC at the same time, so the key is looked up again
      // in any case.
      return admitMac(mac, bucket);
    },
    /** Admits a request of a console session, whose row contains the MAC of the key. */
    admitMac,
  };
}

/** Replaces the stored MAC of a key by its MAC with the new pepper. */
async function replaceMac(pool: DatabasePool, mac: { from: string; to: string }): Promise<void> {
  await pool.query(command`
    UPDATE api_key SET mac = decode(${mac.to}, 'hex') WHERE mac = decode(${mac.from}, 'hex')
      AND NOT EXISTS (SELECT FROM api_key WHERE mac = decode(${mac.to}, 'hex'))`);
}

/** Checks that the user is not a viewer. @throws GatewayError FORBIDDEN with this message */
export function throwIfViewer(caller: Pick<Caller, 'role'>, message: string): void {
  if (caller.role === 'viewer') throw new GatewayError('FORBIDDEN', message);
}

/**
 * Checks that the organization is active and that the key has the scope. Must run before the body
 * is read, so that a rejected request costs little.
 * @throws GatewayError FORBIDDEN, ORGANIZATION_SUSPENDED
 */
export function authorize(
  caller: Pick<Caller, 'role' | 'scopes' | 'organizationStatus'>,
  scope: RequiredScope,
): void {
  if (caller.organizationStatus === 'suspended') throw new GatewayError('ORGANIZATION_SUSPENDED');
  if (scope === 'any') return;
  if (!hasScope(caller.scopes, scope)) {
    throw new GatewayError('FORBIDDEN', `This key does not have the scope ${scope}.`);
  }
  if (scope === 'studio:*' || scope === 'bulk:*' || spendsCredits(scope))
    throwIfViewer(caller, 'A viewer may not spend credits.');
}

/**
 * Checks that the key may use the model of a request. `model` is null if the request has no model.
 * @throws GatewayError FORBIDDEN
 */
export function authorizeModel(caller: Pick<Caller, 'allowedModels'>, model: string | null): void {
  if (model && caller.allowedModels && !caller.allowedModels.includes(model)) {
    throw new GatewayError('FORBIDDEN', `This key may not use the model ${model}.`);
  }
}
