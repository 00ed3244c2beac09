/**
 * Rotation of KEY_PEPPER: keys stay valid, their hashes are replaced on use, and afterwards the old
 * pepper is not needed.
 */
import { describe, expect, it } from 'vitest';
import { createAccess, type Access } from '../../identity/access.ts';
import { createKeys } from '../../identity/keys.ts';
import { findOrganizationByKey } from '../../dev/stack/demo.ts';
import { createCaller } from '../harness/callers.ts';
import { useDatabase } from '../harness/database.ts';

const older = 'the pepper that is going, of this very test';
const newer = 'the pepper that is coming, of this very test';
const database = useDatabase();

const newKey = () => createCaller(database.pool, older);

/** Returns the access control of an API process with these peppers. */
function startAccess(pepper: string, previousPepper?: string): Access {
  return createAccess(database.pool, {
    KEY_PEPPER: pepper,
    KEY_PEPPER_PREVIOUS: previousPepper,
    RATE_LIMIT_PER_MINUTE: 100,
    POLL_RATE_LIMIT_PER_MINUTE: 100,
    CONSOLE_RATE_LIMIT_PER_MINUTE: 60,
    ORGANIZATION_RATE_FACTOR: 10,
  });
}

describe('a key hashed with the previous pepper', () => {
  it('is unknown without KEY_PEPPER_PREVIOUS', async () => {
    const { key } = await newKey();
    expect(await startAccess(newer).admit(key, 'requests')).toBeNull();
  });

  it('is accepted with KEY_PEPPER_PREVIOUS, and after its use without it', async () => {
    const { key, keyId } = await newKey();
    const first = await startAccess(newer, older).admit(key, 'requests');
    expect(first).toMatchObject({ keyId, windows: { key: { hits: 1 } } });
    const second = await startAccess(newer).admit(key, 'requests');
    expect(second).toMatchObject({
      keyId,
      windows: { key: { hits: 2, resetAtMs: first?.windows.key.resetAtMs } },
    });
    expect(await startAccess(older).admit(key, 'requests')).toBeNull();
  });

  it('stays rejected when it was revoked or deleted', async () => {
    const { key, keyId } = await newKey();
    await createKeys(database.pool, older).revoke(keyId, null);
    expect(await startAccess(newer, older).admit(key, 'requests')).toBeNull();
    expect(await startAccess(newer).admit(key, 'requests')).toBeNull();
    await database.query('DELETE FROM api_key WHERE prefix = $1', [key.slice(0, 12)]);
    expect(await startAccess(newer, older).admit(key, 'requests')).toBeNull();
  });

  it('is found by its organization with either pepper', async () => {
    const { key, organizationId } = await newKey();
    expect(await findOrganizationByKey(database.pool, [newer, older], key)).toBe(organizationId);
    expect(await findOrganizationByKey(database.pool, [newer], key)).toBeNull();
  });
});

it('processes with the old and the new pepper accept a key in turn during a rolling deployment', async () => {
  const { key } = await newKey();
  const [behind, ahead] = [startAccess(older, newer), startAccess(newer, older)];
  for (const access of [ahead, behind, behind, ahead, behind]) {
    expect(await access.admit(key, 'requests')).not.toBeNull();
  }
});
