/** Creations with an Idempotency-Key: one creation and one answer per key, whoever repeats it. */
import { describe, expect, it } from 'vitest';
import { operatorAction, useGateway, type TestCaller } from '../harness/gateway.ts';

const gateway = useGateway();
const admin = '/api/admin/v1';

interface Creation {
  /** Path and body by the caller whose organization, user or key the creation concerns. */
  path: (caller: TestCaller) => string;
  body: object;
  otherBody: object;
  /** Table that gets a row, and field of the answer with its id. */
  table: string;
  id: (answer: Record<string, string>) => unknown;
}
const named = { body: { name: 'once' }, otherBody: { name: 'twice' } };
const overlap = { body: { overlapSeconds: 600 }, otherBody: { overlapSeconds: 60 } };
const creations: Record<string, Creation> = {
  'a key': {
    path: () => '/api/v1/api-keys',
    ...named,
    table: 'api_key',
    id: ({ keyId }) => keyId,
  },
  'a rotated key': {
    path: ({ keyId }) => `/api/v1/api-keys/${keyId}/rotate`,
    ...overlap,
    table: 'api_key',
    id: ({ keyId }) => keyId,
  },
  'a rotated webhook secret': {
    path: () => '/api/v1/webhooks/secret/rotate',
    ...overlap,
    table: 'webhook_secret',
    id: ({ generation }) => generation,
  },
  'an upload URL': {
    path: () => '/api/v1/storage/upload-url',
    body: { filename: 'cat.png' },
    otherBody: { filename: 'dog.png' },
    table: 'upload',
    id: ({ fileId }) => fileId,
  },
  'an organization': {
    path: () => `${admin}/organizations`,
    ...named,
    table: 'organization',
    id: ({ organizationId }) => organizationId,
  },
  'a user': {
    path: ({ organizationId }) => `${admin}/organizations/${organizationId}/users`,
    ...named,
    table: 'app_user',
    id: ({ userId }) => userId,
  },
  "a user's key": {
    path: ({ userId }) => `${admin}/users/${userId}/keys`,
    ...named,
    table: 'api_key',
    id: ({ keyId }) => keyId,
  },
  'an operator': {
    path: () => `${admin}/operators`,
    body: { name: 'olaf' },
    otherBody: { name: 'ole' },
    table: 'operator',
    id: ({ operatorId }) => operatorId,
  },
};

type CreationBody = Record<string, string> & { data?: Record<string, string> };
const isAdmin = (path: string): boolean => path.startsWith(admin);
const send = (path: string, body: object, key: string, idempotencyKey: string) =>
  gateway.call<CreationBody>(path, {
    key,
    headers: { 'idempotency-key': idempotencyKey },
    body: isAdmin(path) ? { ...operatorAction, ...body } : body,
  });
const count = async (table: string): Promise<number> =>
  (await gateway.database.query(`SELECT FROM ${table}`)).length;
const secretsOf = (answer: CreationBody): string[] =>
  ['key', 'secret', 'uploadUrl'].flatMap((name) => (answer.data ?? answer)[name] ?? []);

describe.each(Object.entries(creations))('%s', (_name, creation) => {
  it('is created once: repeats get the first answer, other bodies and other keys are rejected', async () => {
    const caller = await gateway.newCaller();
    const path = creation.path(caller);
    const key = isAdmin(path) ? gateway.config.ADMIN_API_KEY : caller.key;
    const before = await count(creation.table);
    const idempotencyKey = `creation-${caller.organizationId}`;
    const racing = await Promise.all(
      Array.from({ length: 5 }, () => send(path, creation.body, key, idempotencyKey)),
    );
    const [first] = racing;
    for (const { status, body, headers } of racing) {
      expect([status, body]).toEqual([200, first?.body]);
      expect(headers.get('cache-control')).toBe('no-store');
    }
    const replayed = racing.filter(({ headers }) => headers.get('idempotent-replayed') === 'true');
    expect(replayed).toHaveLength(4);
    const id = creation.id(first?.body.data ?? first?.body ?? {});
    expect(id).toBeTruthy();
    const created = (await count(creation.table)) - before;
    // A rotated webhook secret is kept beside the one that it replaces.
    expect(created).toBeOneOf(creation.table === 'webhook_secret' ? [1, 2] : [1]);

    const reused = { status: 422, body: { error: 'IDEMPOTENCY_KEY_REUSED' } };
    expect(await send(path, creation.otherBody, key, idempotencyKey)).toMatchObject(reused);
    if (!isAdmin(path)) {
      const { key: weaker } = await gateway.newKey({}, caller.key);
      expect(await send(path, creation.body, weaker, idempotencyKey)).toMatchObject(reused);
    }
    const stored = JSON.stringify(
      await gateway.database.query(
        `SELECT to_jsonb(c) AS claim, encode(answer, 'escape') AS answer FROM idempotency_claim c`,
      ),
    );
    for (const secret of secretsOf(first?.body ?? {}))
      expect(stored).not.toContain(secret.slice(13));
  });
});

describe('a repeated creation', () => {
  it('after a rejection is a new attempt', async () => {
    const { key } = await gateway.newKey({ scopes: ['keys:write'] });
    const wide = { name: 'wide', scopes: ['chat'] };
    const path = '/api/v1/api-keys';
    expect((await send(path, wide, key, 'rejected')).status).toBe(403);
    expect((await send(path, wide, gateway.caller.key, 'rejected')).status).toBe(200);
  });

  it('of another operator is a creation of its own', async () => {
    const operators = `${admin}/operators`;
    const { body } = await send(operators, { name: 'nora' }, gateway.config.ADMIN_API_KEY, 'nora');
    const organizations = `${admin}/organizations`;
    const answers = await Promise.all(
      [gateway.config.ADMIN_API_KEY, body.data?.['key'] ?? ''].map((key) =>
        gateway.call<CreationBody>(organizations, {
          key,
          headers: { 'idempotency-key': 'shared' },
          body: { ...operatorAction, name: 'shared' },
        }),
      ),
    );
    const ids = answers.map((answer) => answer.body.data?.['organizationId']);
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(new Set(ids).size).toBe(2);
  });

  it('whose answer was sealed with a pepper that is gone is 409 ANSWER_NOT_KEPT', async () => {
    const path = '/api/v1/api-keys';
    await send(path, { name: 'kept' }, gateway.caller.key, 'kept');
    await gateway.database.query(
      `UPDATE idempotency_claim SET answer = answer || '\\x00' WHERE idempotency_key = 'kept'`,
    );
    const answer = await send(path, { name: 'kept' }, gateway.caller.key, 'kept');
    expect(answer).toMatchObject({ status: 409, body: { error: 'ANSWER_NOT_KEPT' } });
  });
});
