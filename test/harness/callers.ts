/** Organizations with credits and a key, made without a request. */
import { createKey } from '../../identity/keys.ts';
import { createOrganization } from '../../identity/organizations.ts';
import { createLedger } from '../../ledger/ledger.ts';
import type { DatabasePool } from '../../platform/database.ts';

/** An organization of a test, with a key. */
export interface TestCaller {
  organizationId: string;
  userId: string;
  keyId: string;
  key: string;
}

/** Credits and limits of an organization, micro-credits, and fields of its key. */
export interface CallerOptions {
  amountMicro?: number;
  windowLimitMicro?: number | null;
  key?: Partial<Parameters<typeof createKey>[2]>;
}

/** Creates an organization with these credits, by default without any, and a key. */
export async function createCaller(
  pool: DatabasePool,
  pepper: string,
  { amountMicro = 0, windowLimitMicro = null, key }: CallerOptions = {},
): Promise<TestCaller> {
  const organization = await createOrganization(pool, { name: 'Test', windowLimitMicro });
  const created = await createKey(pool, pepper, { ...organization, name: 'test', ...key });
  if (amountMicro > 0) {
    const grant = { id: 'initial', amountMicro, actor: 'test', reason: 'test' };
    await createLedger(pool).grant({ organizationId: organization.organizationId, ...grant });
  }
  return { ...organization, ...created };
}
