/** Creates the demo organization of a local stack, with credits and an API key. */
import { sql } from 'slonik';
import { z } from 'zod';
import { createKey } from '../../identity/keys.ts';
import { createOrganization } from '../../identity/organizations.ts';
import { calculateKeyMac } from '../../identity/access.ts';
import { createLedger } from '../../ledger/ledger.ts';
import { microFromCredits } from '../../domain/credits.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';

interface DemoOptions {
  databaseUrl: string;
  keyPepper: string;
  /** Previous pepper, while peppers are being rotated. */
  previousKeyPepper?: string | undefined;
  /** Credits granted once, at the first start. */
  demoCredits: number;
  /** Studio credits per six hours. Omit it for no limit. */
  windowAllowanceCredits?: number | undefined;
  /** API key from an earlier start, if there was one. */
  apiKey?: string | undefined;
}

/** Finds or creates the demo organization. The grant has a fixed id, so it is applied only once. */
export async function ensureDemoOrganization(
  options: DemoOptions,
): Promise<{ organizationId: string; apiKey: string }> {
  const logger = createLogger('demo', 'warn');
  const pool = await openDatabase({ url: options.databaseUrl, poolMax: 2, logger });
  try {
    const { apiKey } = options;
    const peppers = [options.keyPepper, options.previousKeyPepper].filter(
      (pepper) => pepper !== undefined,
    );
    const known = apiKey ? await findOrganizationByKey(pool, peppers, apiKey) : null;
    if (known !== null && apiKey) return { organizationId: known, apiKey };
    const windowLimitMicro =
      options.windowAllowanceCredits === undefined
        ? null
        : microFromCredits(options.windowAllowanceCredits);
    const created = await createOrganization(pool, { name: 'Demo', windowLimitMicro });
    const { key } = await createKey(pool, options.keyPepper, {
      ...created,
      name: 'Demo key',
      ...(apiKey && { key: apiKey }),
    });
    await createLedger(pool).grant({
      organizationId: created.organizationId,
      id: 'demo-credits',
      amountMicro: microFromCredits(options.demoCredits),
      actor: 'stack',
      reason: 'credits of the demo organization',
    });
    return { organizationId: created.organizationId, apiKey: key };
  } finally {
    await pool.end();
  }
}

const organizationIdRow = z.object({ organization_id: z.string() });

/** Returns a key's organization, even if the key is revoked or expired. Null if it is unknown. */
export function findOrganizationByKey(
  pool: DatabasePool,
  peppers: readonly string[],
  key: string,
): Promise<string | null> {
  const macs = peppers.map((pepper) => calculateKeyMac(key, pepper));
  return pool.maybeOneFirst(sql.type(organizationIdRow)`
    SELECT organization_id FROM api_key
    WHERE mac IN (SELECT decode(m, 'hex') FROM unnest(${sql.array(macs, 'text')}) AS m) LIMIT 1`);
}
