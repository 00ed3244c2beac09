/** Ledgers for the tests of a file, over a database that the audit checks after each test. */
import { afterEach, expect } from 'vitest';
import { createKeys } from '../../identity/keys.ts';
import { createChatLedger } from '../../chat/chat-ledger.ts';
import { addEndUser } from '../../domain/end-users.ts';
import { newId } from '../../domain/ids.ts';
import { createLedger, type Ledger } from '../../ledger/ledger.ts';
import { openDatabase } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createCaller, type TestCaller } from '../harness/callers.ts';
import { createTestDatabase } from '../harness/database.ts';
import { during } from '../harness/during.ts';

/** An organization with credits, and a key. */
export interface Holder extends Pick<TestCaller, 'organizationId' | 'userId' | 'keyId'> {
  /** End user of its reservations. */
  endUser?: string;
  /** Browser token of its reservations. */
  tokenId?: string;
}

/** Returns the metadata of a reservation of a holder. */
const metadataOf = ({ endUser }: Pick<Holder, 'endUser'>) => {
  const metadata = addEndUser(null, endUser ?? null);
  return metadata ? { metadata } : {};
};

interface MoveOptions {
  /** The ledger of one of two processes; the first by default. */
  from?: Ledger;
  /** True to write the row of a job too. */
  hasJob?: boolean;
}

export const pepper = 'a pepper that is only used in these tests';
/** The person and the reason of grants. */
export const by = { actor: 'test', reason: 'test' };
export const servedBy = { model: 'm', provider: 'p' };

async function start() {
  const database = await createTestDatabase();
  const logger = createLogger('test', 'silent');
  const open = () => openDatabase({ url: database.url, poolMax: 8, logger });
  const [pool, otherPool] = [await open(), await open()];
  const ledger = createLedger(pool);
  const chatLedger = createChatLedger(pool);

  return {
    database,
    query: database.query,
    pool,
    ledger,
    /** The ledger of a second process, whose batches race with those of the first. */
    other: createLedger(otherPool),
    chatLedger,
    keys: createKeys(pool, pepper),

    newHolder: (amountMicro = 1_000_000, windowLimitMicro: number | null = null): Promise<Holder> =>
      createCaller(pool, pepper, { amountMicro, windowLimitMicro }),

    /** Returns the micro-credits that an organization has used of its window. */
    async readWindow({ organizationId }: Pick<Holder, 'organizationId'>): Promise<number> {
      const text = 'SELECT window_used::float8 AS used FROM account WHERE organization_id = $1';
      const [account] = await database.query<{ used: number }>(text, [organizationId]);
      return account?.used ?? NaN;
    },

    reserve(
      { organizationId, keyId, tokenId, ...of }: Holder,
      amountMicro: number,
      { id = newId('job'), from = ledger, hasJob = false }: MoveOptions & { id?: string } = {},
    ) {
      const deadlineAt = new Date(Date.now() + 60_000).toISOString();
      const request = { provider: 'fal', requestId: 'req_1', deadlineAt, request: {} };
      const plan = tokenId === undefined ? {} : { plan: { tokenId } };
      const job = {
        keyId,
        type: 'imageGenerate',
        model: null,
        ...plan,
        ...request,
        ...metadataOf(of),
      };
      const reservation = {
        organizationId,
        id,
        kind: 'studio',
        amountMicro,
        ttlMs: 60_000,
      } as const;
      return from.reserve({ ...reservation, ...(hasJob && { job }) });
    },

    /** Charges this amount; null releases the reservation. */
    settle(
      { organizationId }: Pick<Holder, 'organizationId'>,
      id: string,
      amountMicro: number | null,
      { from = ledger, hasJob = false }: MoveOptions = {},
    ) {
      const isReleased = amountMicro === null;
      const job = {
        status: isReleased ? ('failed' as const) : ('completed' as const),
        outputs: isReleased ? null : [],
        // Postgres stores neither NUL nor half of a character of two UTF-16 units.
        error: isReleased ? ({ code: 'CANCELED', message: '\0\ud83d' } as const) : null,
        artifacts: [],
      };
      const to = isReleased ? ('released' as const) : ('charged' as const);
      const settlement = { organizationId, id, to, amountMicro: amountMicro ?? 0, reason: 'test' };
      return from.settle({ ...settlement, ...(hasJob && { job }) });
    },

    reserveChat(
      { organizationId, keyId, tokenId, ...of }: Holder,
      amountMinMicro: number,
      amountMaxMicro = amountMinMicro,
      id = newId('chat'),
    ) {
      const amounts = { amountMinMicro, amountExpectedMicro: amountMaxMicro, amountMaxMicro };
      const token = tokenId === undefined ? {} : { tokenId };
      const sent = { streamed: false, requestId: 'req_1' };
      const chat = { keyId, ...token, ...servedBy, ...sent, ...metadataOf(of) };
      const reservation = { organizationId, id, ...amounts, freeDivisor: 2, ttlMs: 60_000 };
      return chatLedger.reserve({ ...reservation, chat });
    },

    async close(): Promise<void> {
      await Promise.all([pool.end(), otherPool.end()]);
      await database.drop();
    },
  };
}

/** Returns the ledgers of a file, filled in before its first test. */
export function useLedger() {
  const ledgers = during(start);
  afterEach(async () => expect(await ledgers.database.audit()).toEqual([]));
  return ledgers;
}
