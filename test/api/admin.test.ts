import { describe, expect, it } from 'vitest';
import { operatorAction as by, useGateway } from '../harness/gateway.ts';
import { operatorEndpoints } from '../harness/endpoints.ts';

interface Row {
  organizationId: string;
  ownerId: string;
  userId: string;
  keyId: string;
  key: string;
  action: string;
  id: number;
}
interface ListBody {
  data: Row[];
  nextCursor: string | null;
}

const gateway = useGateway({ settled: 'last' });

const read = async (path: string) => {
  const answer = await gateway.admin<ListBody>(path);
  expect(answer.status).toBe(200);
  return answer.body;
};
const write = (path: string, body: object = {}, method = 'POST') =>
  gateway.admin<{ data: Row }>(path, body, method);
const newOrganization = async (body: object = {}) =>
  (await write('/organizations', { name: 'Acme', ...body })).body.data;
const readActions = async (organizationId: string) =>
  (await read(`/actions?organizationId=${organizationId}`)).data;
const conflict = { status: 422, body: { error: 'IDEMPOTENCY_KEY_REUSED' } };
/** Sends a request eight times at once, and expects the same balance in each response. */
const expectOnce = async (send: () => Promise<{ body: object }>, available: number) => {
  for (const { body } of await Promise.all(Array.from({ length: 8 }, send)))
    expect(body).toMatchObject({ success: true, available });
};

describe('organizations', () => {
  it('are created with an owner, listed, read, suspended and activated', async () => {
    const made = await newOrganization({ name: 'Größe & Co', windowAllowanceCredits: 50 });
    expect(made).toEqual({
      organizationId: expect.stringMatching(/^org_/),
      ownerId: expect.stringMatching(/^usr_/),
      name: 'Größe & Co',
      status: 'active',
      createdAt: expect.any(String),
      rateLimit: null,
      jobsMax: null,
      credits: 0,
      balance: { available: 0, reserved: 0, total: 0 },
      window: { limit: 50, used: 0, remaining: 50, startedAt: null, resetAt: null },
    });
    const { organizationId, ownerId, ...rest } = made;
    const named = `name=${encodeURIComponent('Größe & Co')}`;
    const suspended = { ...rest, organizationId, status: 'suspended' };
    const answer = await write(`/organizations/${organizationId}/suspend`);
    expect(answer.body.data).toEqual(suspended);
    expect((await read(`/organizations?status=suspended&${named}`)).data).toEqual([suspended]);
    await write(`/organizations/${organizationId}/activate`);
    const [first] = (await read(`/organizations?limit=1&${named}`)).data;
    expect(first).toEqual({ organizationId, ...rest });
    const shown = await gateway.admin(`/organizations/${organizationId}`);
    expect(shown.body.data).toMatchObject({ ...first, activity: { openJobs: 0, keys: 0 } });
    expect((await read(`/organizations/${organizationId}/users`)).data).toMatchObject([
      { userId: ownerId, role: 'owner', keys: 0 },
    ]);
    expect((await readActions(organizationId)).map(({ action }) => action)).toEqual([
      'organization.activated',
      'organization.suspended',
      'organization.created',
    ]);
  });

  it('are listed in pages', async () => {
    const name = `Paged ${Date.now()}`;
    for (let count = 0; count < 3; count += 1) await newOrganization({ name });
    const filter = `name=${encodeURIComponent(name)}`;
    const first = await read(`/organizations?${filter}&limit=2`);
    const next = await read(`/organizations?${filter}&limit=2&cursor=${first.nextCursor}`);
    const all = await read(`/organizations?${filter}`);
    expect([first.data.length, next.nextCursor, all.data.length]).toEqual([2, null, 3]);
    expect([...first.data, ...next.data]).toEqual(all.data);
  });
});

describe('users and keys', () => {
  it('are created by operators, users with any role and keys with any scopes', async () => {
    const { organizationId } = await newOrganization();
    const ann = { name: 'Ann', role: 'viewer' };
    const user = await write(`/organizations/${organizationId}/users`, ann);
    expect(user.body.data).toMatchObject({ organizationId, ...ann, keys: 0 });
    const { userId } = user.body.data;
    const key = await write(`/users/${userId}/keys`, { name: 'reads', scopes: ['usage:read'] });
    expect(key.headers.get('cache-control')).toContain('no-store');
    expect(key.body.data).toMatchObject({ key: expect.stringMatching(/^gk_live_/), name: 'reads' });
    const { key: secret, ...meta } = key.body.data;
    expect((await gateway.call('/api/v1/usage', { key: secret })).status).toBe(200);
    const [listed] = (await read(`/users/${userId}/keys`)).data;
    expect(listed).toEqual({ ...meta, budget: null, lastUsedAt: expect.any(Number) });

    await write(`/keys/${meta.keyId}/revoke`);
    expect((await gateway.call('/api/v1/usage', { key: secret })).status).toBe(401);
    expect((await write(`/keys/${meta.keyId}/revoke`)).status).toBe(404);
    expect((await read(`/users/${userId}/keys`)).data).toEqual([]);
    const recorded = await readActions(organizationId);
    expect(recorded).toMatchObject([
      { action: 'key.revoked', subject: meta.keyId, ...by },
      { action: 'key.created', subject: meta.keyId, details: { userId, scopes: ['usage:read'] } },
      { action: 'user.created', subject: userId, details: ann },
      { action: 'organization.created', subject: organizationId },
    ]);
    expect(JSON.stringify(recorded)).not.toContain(secret.slice(13));
  });
});

describe('credits', () => {
  it('are granted once per id, and recorded once', async () => {
    const { organizationId } = await newOrganization();
    const path = `/organizations/${organizationId}/grants`;
    await expectOnce(() => write(path, { id: 'invoice-1', credits: 12.5 }), 12.5);
    expect(await write(path, { id: 'invoice-1', credits: 13 })).toMatchObject(conflict);
    expect((await read(`/organizations/${organizationId}/ledger`)).data).toEqual([
      {
        sequence: 1,
        kind: 'grant',
        reservationId: null,
        postedChange: 12.5,
        reservedChange: 0,
        postedAfter: 12.5,
        reservedAfter: 0,
        priceRows: null,
        ...by,
        createdAt: expect.any(String),
      },
    ]);
    const another = await newOrganization();
    await write(`/organizations/${another.organizationId}/grants`, { id: 'invoice-1', credits: 7 });
    for (const [id, amount] of [
      [organizationId, 12.5],
      [another.organizationId, 7],
    ] as const) {
      expect(await readActions(id)).toMatchObject([
        { action: 'credits.granted', details: { id: 'invoice-1', credits: amount }, ...by },
        { action: 'organization.created' },
      ]);
    }
  });

  it('are withdrawn once per id, up to the amount that is available and not reserved', async () => {
    const { organizationId, ...caller } = await gateway.newCaller({ credits: 10 });
    const path = `/organizations/${organizationId}/take-backs`;
    const jobId = await gateway.startImage({ prompt: '[[slow:600s]] a promise' }, caller.key);
    const error = 'INSUFFICIENT_CREDITS';
    expect(await write(path, { id: 'back-1', credits: 6.2 })).toMatchObject({
      status: 402,
      body: { error, required: 6.2, available: 6.1, reserved: 3.9 },
    });
    const body = { id: 'back-2', credits: 6.1 };
    await expectOnce(() => write(path, body), 0);
    // An id identifies one grant or one withdrawal, not both.
    expect(await write(`/organizations/${organizationId}/grants`, body)).toMatchObject(conflict);
    await gateway.untilAccepted(jobId);
    await gateway.sandbox.clearFaults();
    const done = await gateway.untilDone(jobId, caller.key);
    expect(done.body.data.billing).toMatchObject({ state: 'charged', charged: 3.9 });
    expect((await read(`/organizations/${organizationId}/ledger`)).data).toMatchObject([
      { kind: 'charge', postedAfter: 0, reservedAfter: 0 },
      { kind: 'grant', postedChange: -6.1, postedAfter: 3.9, ...by },
      { kind: 'reserve' },
      { kind: 'grant', postedChange: 10 },
    ]);
    expect(await readActions(organizationId)).toMatchObject([
      { action: 'credits.taken_back', details: body, ...by },
    ]);
  });

  it('are limited per six hours, with immediate effect', async () => {
    const caller = await gateway.newCaller();
    const path = `/organizations/${caller.organizationId}/window-allowance`;
    const request = { key: caller.key, body: { prompt: 'a lighthouse' } };
    const ask = () => gateway.call('/api/v1/studio/image/generate', request);
    expect((await ask()).status).toBe(200);
    const limited = await write(path, { credits: 5 }, 'PUT');
    expect(limited.body.data).toMatchObject({ window: { limit: 5, used: 3.9, remaining: 1.1 } });
    expect((await ask()).body.error).toBe('WINDOW_EXHAUSTED');
    await write(path, { credits: null }, 'PUT');
    expect((await ask()).status).toBe(200);
    expect(await readActions(caller.organizationId)).toMatchObject([
      { action: 'window_allowance.set', details: { credits: null } },
      { action: 'window_allowance.set', details: { credits: 5 } },
    ]);
    const ledger = `/organizations/${caller.organizationId}/ledger`;
    const { data, nextCursor } = await read(`${ledger}?limit=3`);
    expect(data).toMatchObject([{ kind: 'charge' }, { kind: 'reserve' }, { kind: 'charge' }]);
    expect(await read(`${ledger}?cursor=${nextCursor}`)).toMatchObject({
      data: [{ kind: 'reserve' }, { kind: 'grant' }],
      nextCursor: null,
    });
  });
});

describe('jobs', () => {
  it('are listed and canceled across organizations', async () => {
    const caller = await gateway.newCaller();
    await gateway.sandbox.inject({ match: 'a very slow boat', faults: 'slow:30s', times: 1 });
    const jobId = await gateway.startImage({ prompt: 'a very slow boat' }, caller.key);
    const filter = `organizationId=${caller.organizationId}`;
    expect((await read(`/jobs?status=open&${filter}`)).data).toMatchObject([
      {
        jobId,
        organizationId: caller.organizationId,
        keyId: caller.keyId,
        type: 'imageGenerate',
        provider: 'fal',
        status: 'open',
        billing: { state: 'reserved', reserved: 3.9, charged: 0 },
      },
    ]);
    expect((await read(`/reservations?${filter}`)).data).toMatchObject([
      { id: jobId, kind: 'studio', credits: 3.9, ownerMissingAt: null },
    ]);
    await gateway.untilAccepted(jobId);

    expect((await write(`/jobs/${jobId}/cancel`)).status).toBeOneOf([200, 202]);
    const done = await gateway.untilDone(jobId, caller.key);
    expect(done.body.data).toMatchObject({ status: 'canceled', billing: { state: 'released' } });
    expect(await write(`/jobs/${jobId}/cancel`)).toMatchObject({
      status: 409,
      body: { error: 'JOB_ALREADY_DONE' },
    });
    expect(await readActions(caller.organizationId)).toMatchObject([
      { action: 'job.cancel_requested', subject: jobId, ...by },
    ]);
    expect((await read(`/jobs?status=canceled&${filter}`)).data).toMatchObject([{ jobId }]);
    expect((await read(`/reservations?${filter}`)).data).toEqual([]);
    expect((await read(`/jobs?limit=1&type=musicGenerate&${filter}`)).data).toEqual([]);
  });
});

describe('the operator API', () => {
  const writes = operatorEndpoints
    // Creating a session records no action.
    .filter(({ takesBody, requestPath }) => takesBody && !requestPath.endsWith('/session'))
    .map(({ method, requestPath, request }): [method: string, path: string, body: object] => [
      method,
      requestPath.replace('/api/admin/v1', ''),
      request.example ?? {},
    ]);
  /** Paths whose example names no object that has to exist. */
  const createsWithoutObject = new Set(
    ['organizations', 'operators', 'archive', 'bulk-actions', 'prices'].map((name) => `/${name}`),
  );
  const countActions = () => gateway.database.query('SELECT count(*) FROM admin_action');

  it.each(writes)(
    'requires an actor, a reason and an existing object for %s %s',
    async (method, path, body) => {
      const counted = await countActions();
      for (const lacking of ['actor', 'reason']) {
        expect(await write(path, { ...body, [lacking]: undefined }, method)).toMatchObject({
          status: 400,
          body: { error: 'INVALID_REQUEST', details: [{ path: lacking }] },
        });
      }
      expect((await write(path, { ...body, stray: 1 }, method)).status).toBe(400);
      if (!createsWithoutObject.has(path)) {
        // The object in the path does not exist.
        expect((await write(path, body, method)).status).toBe(404);
      }
      expect(await countActions()).toEqual(counted);
    },
  );

  it.each([
    ['/organizations/%00', 404],
    ['/organizations/%ff', 404],
    ['/organizations?cursor=%00', 400],
    ['/organizations?limit=0', 400],
    ['/jobs?cursor=job_1', 400],
    ['/stuck?olderThanSeconds=-1', 400],
    ['/notifications?state=lost', 400],
    ['/actions?cursor=0', 400],
    ['/actions?stray=1', 400],
  ])('rejects GET %s, which is malformed, with %i', async (path, status) => {
    const answer = await gateway.admin(path);
    expect(answer.status).toBe(status);
    if (path.includes('?')) expect(answer.body.error).toBe('INVALID_REQUEST');
  });

  it('keeps its action records append-only', async () => {
    await newOrganization();
    for (const statement of [
      'DELETE FROM admin_action',
      `UPDATE admin_action SET actor = 'nobody'`,
    ]) {
      await expect(gateway.database.query(statement)).rejects.toThrow('append-only');
    }
    const first = await read('/actions?limit=1');
    const next = await read(`/actions?limit=1&cursor=${first.nextCursor}`);
    expect(next.data[0]?.id).toBeLessThan(first.data[0]?.id ?? 0);
  });
});

describe('the audit', () => {
  it('is clean, and names each organization whose balance is wrong', async () => {
    const audit = () => gateway.admin('/audit');
    expect((await audit()).body).toMatchObject({ clean: true, findings: [] });
    const { organizationId } = await newOrganization();
    const tamper = (posted: number) =>
      gateway.database.query(
        `UPDATE account SET posted = ${posted} WHERE organization_id = '${organizationId}'`,
      );
    await tamper(5);
    const findings = [{ subject: organizationId }];
    expect((await audit()).body).toMatchObject({ clean: false, findings });
    expect((await gateway.admin('/audit/last')).body).toMatchObject({
      data: expect.arrayContaining([
        expect.objectContaining({ scope: 'changes', findings: 1, finishedAt: expect.any(String) }),
      ]),
    });
    await tamper(0);
  });
});
