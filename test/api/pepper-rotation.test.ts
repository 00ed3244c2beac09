/**
 * Rotation of KEY_PEPPER: keys stay valid, their hashes are replaced on use, and afterwards the old
 * pepper is not needed.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAccess, type Access } from '../../api/identity/access.ts';
import { createKey } from '../../api/identity/keys.ts';
import { createOrganization } from '../../api/identity/organizations.ts';
import { createKeys } from '../../api/identity/keys.ts';
import { findOrganizationByKey } from '../../dev/stack/demo.ts';
import { openDatabase, type DatabasePool } from '../../platform/database.ts';
import { createLogger } from '../../platform/logger.ts';
import { createTestDatabase, type TestDatabase } from '../harness/database.ts';

const older = 'the pepper that is going, of this very test';
const newer = 'the pepper that is coming, of this very test';
let database: TestDatabase;
let pool: DatabasePool;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = await openDatabase({
    url: database.url,
    poolMax: 4,
    logger: createLogger('test', 'silent'),
  });
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

async function newKey() {
  const made = await createOrganization(pool, { name: 'Test', windowLimitMicro: null });
  return { ...made, ...(await createKey(pool, older, { ...made, name: 'test' })) };
}

/** An API process that was started with these. */
function process(pepper: string, previousPepper?: string): Access {
  return createAccess(pool, {
    KEY_PEPPER: pepper,
    KEY_PEPPER_PREVIOUS: previousPepper,
    RATE_LIMIT_PER_MINUTE: 100,
    POLL_RATE_LIMIT_PER_MINUTE: 100,
    CONSOLE_RATE_LIMIT_PER_MINUTE: 60,
  });
}

describe('a key hashed with the previous pepper', () => {
  it('is unknown without KEY_PEPPER_PREVIOUS', async () => {
    const { key } = await newKey();
    expect(await process(newer).admit(key, 'requests')).toBeNull();
  });

  it('is accepted with KEY_PEPPER_PREVIOUS, and after its use without it', async () => {
    const { key, keyId } = await newKey();
    expect(await process(newer, older).admit(key, 'requests')).toMatchObject({ keyId, hits: 1 });
    expect(await process(newer).admit(key, 'requests')).toMatchObject({ keyId, hits: 2 });
    expect(await process(older).admit(key, 'requests')).toBeNull();
  });

  it('stays rejected when it was revoked', async () => {
    const { key, keyId } = await newKey();
    await createKeys(pool, older).revoke(keyId, null);
    expect(await process(newer, older).admit(key, 'requests')).toBeNull();
    expect(await process(newer).admit(key, 'requests')).toBeNull();
  });

  it('is found by its organization with either pepper', async () => {
    const { key, organizationId } = await newKey();
    expect(await findOrganizationByKey(pool, [newer, older], key)).toBe(organizationId);
    expect(await findOrganizationByKey(pool, [newer], key)).toBeNull();
  });
});

it('an unknown key is rejected with both peppers', async () => {
  const { key } = await newKey();
  await database.query('DELETE FROM api_key WHERE prefix = $1', [key.slice(0, 12)]);
  expect(await process(newer, older).admit(key, 'requests')).toBeNull();
});

it('processes with the old and the new pepper accept a key in turn during a rolling deployment', async () => {
  const { key } = await newKey();
  const [behind, ahead] = [process(older, newer), process(newer, older)];
  for (const access of [ahead, behind, behind, ahead, behind]) {
    expect(await access.admit(key, 'requests')).not.toBeNull();
  }
});
