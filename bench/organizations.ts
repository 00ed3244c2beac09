/** Organizations with credits and a key each, so that load can be spread over them. */
import { createLedger } from '../activities/ledger/ledger.ts';
import { createKey, createOrganization } from '../api/identity/accounts.ts';
import { microFromCredits } from '../domain/credits.ts';
import { openDatabase } from '../platform/database.ts';
import { createLogger } from '../platform/logger.ts';

interface Wanted {
  databaseUrl: string;
  keyPepper: string;
  count: number;
  /** For each. */
  credits: number;
}

const atOnce = 8;

/** Makes them. @returns a key of each */
export async function makeOrganizations(wanted: Wanted): Promise<string[]> {
  const logger = createLogger('bench', 'warn');
  const pool = await openDatabase({ url: wanted.databaseUrl, poolMax: atOnce, logger });
  const ledger = createLedger(pool);
  const keys: string[] = [];
  let begun = 0;
  const maker = async (): Promise<void> => {
    while (begun < wanted.count) {
      begun += 1;
      const name = `Organization ${begun}`;
      // So many at once and no more.
      const made = await createOrganization(pool, { name, windowLimitMicro: null });
      const { key } = await createKey(pool, wanted.keyPepper, { ...made, name });
      await ledger.grant({
        organizationId: made.organizationId,
        id: 'bench',
        amountMicro: microFromCredits(wanted.credits),
        actor: 'bench',
        reason: 'credits of the benchmark',
      });
      keys.push(key);
    }
  };
  try {
    await Promise.all(Array.from({ length: atOnce }, maker));
    return keys;
  } finally {
    await pool.end();
  }
}
