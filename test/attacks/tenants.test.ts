/**
 * Every object against every caller. For an id of another organization, a caller gets the same
 * bytes as for an unknown id, so that no response reveals that the object exists.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { hasScope, scopes } from '../../identity/access.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { callerEndpoints, operatorEndpoints, protocolEndpoints } from '../harness/endpoints.ts';
import { makeForm, signUpload } from '../harness/uploads.ts';
import {
  attempts,
  batchOf,
  createAttempts,
  removeSignature,
  type ObjectIds,
} from './object-attempts.ts';

const gateway = useGateway({ settled: 'last' });
/** The owner of the objects. */
let owner: TestCaller;
const owned: ObjectIds = {
  job: '',
  waitingJob: '',
  key: '',
  upload: '',
  lines: '',
  batch: '',
  uploadUrl: '',
  resultUrl: '',
  endpoint: '',
  share: '',
  recipe: newId('job').replace('job_', 'saved-'),
};
const actors: Record<string, string | null> = {};
const { send, attempt, readState, expectSame } = createAttempts(gateway, owned);

async function admin(path: string, body: object): Promise<Record<string, string>> {
  const answer = await gateway.admin<{ data: Record<string, string> }>(path, body);
  expect(answer.status).toBe(200);
  return answer.body.data;
}

async function userKey(organizationId: string, role: string): Promise<string> {
  const { userId } = await admin(`/organizations/${organizationId}/users`, { name: role, role });
  return (await admin(`/users/${userId}/keys`, { name: 'a key' }))['key'] ?? '';
}

beforeAll(async () => {
  owner = gateway.caller;
  const stranger = await gateway.newCaller({ credits: 100 });
  // A job older than those of the owner, which a cursor of the owner's job must not find.
  const olderJob = await gateway.startImage({ prompt: 'his tree' }, stranger.key);
  await gateway.untilDone(olderJob, stranger.key);
  owned.job = await gateway.startImage({ prompt: 'a tall tree' });
  const { result } = (await gateway.untilDone(owned.job)).body.data;
  owned.resultUrl = removeSignature(result.images[0]?.url ?? '');
  const waiting = await gateway.call('/api/v1/studio/image/generate', {
    body: { prompt: '[[slow:900s]] [[no-webhook]] a slow tree', async: true },
    headers: { 'idempotency-key': 'a-shared-word' },
  });
  owned.waitingJob = waiting.body.data.jobId;
  owned.key = owner.keyId;
  const { fileId, publicUrl } = await signUpload(gateway, { contentType: 'image/png' });
  owned.upload = fileId;
  owned.uploadUrl = removeSignature(publicUrl);
  const form = makeForm({ purpose: 'batch', file: new File(['{}'], 'a.jsonl') });
  const lines = await gateway.call<{ id: string }>('/api/v1/files', { body: form });
  owned.lines = lines.body.id;
  const batch = await gateway.call<{ id: string }>('/api/v1/batches', {
    body: batchOf(owned.lines),
  });
  owned.batch = batch.body.id;
  const body = { url: 'https://shop.example/', events: ['studio.bulk.paused'] };
  const endpoint = await gateway.call<{ data: { endpointId: string } }>(
    '/api/v1/webhook-endpoints',
    { body },
  );
  owned.endpoint = endpoint.body.data.endpointId;
  const shared = await gateway.call<{ data: { shareId: string } }>(
    `/api/v1/studio/jobs/${owned.job}/share`,
    { body: {} },
  );
  owned.share = shared.body.data.shareId;
  const saved = { use: 'image/generate', body: { prompt: 'a saved tree' } };
  await gateway.send(`/api/v1/studio/recipes/${owned.recipe}`, { method: 'PUT', body: saved });

  const suspended = await gateway.newCaller({ credits: 1 });
  await admin(`/organizations/${suspended.organizationId}/suspend`, {});
  Object.assign(actors, {
    stranger: stranger.key,
    'a viewer elsewhere': await userKey(stranger.organizationId, 'viewer'),
    'an admin elsewhere': await userKey(stranger.organizationId, 'admin'),
    'a stranger with one scope': (await gateway.newCaller({ credits: 1, scopes: ['chat'] })).key,
    suspended: suspended.key,
    'the admin key': gateway.config.ADMIN_API_KEY,
    nobody: null,
  });
});
afterAll(async () => {
  await gateway.cancel(owned.waitingJob);
  await gateway.untilDone(owned.waitingJob);
  await gateway.expectSettled();
});

describe('a caller of another organization', () => {
  it.each([
    ['stranger', 400, 404],
    ['a viewer elsewhere', 400, 403, 404],
    ['an admin elsewhere', 400, 404],
    ['a stranger with one scope', 400, 403, 404],
    ['suspended', 400, 403],
    ['the admin key', 401],
    ['nobody', 401],
  ] as const)('reads and changes nothing: %s', async (actor, ...statuses) => {
    const key = actors[actor] ?? null;
    const before = await readState();
    for (const what of Object.keys(attempts)) {
      const foreign = await expectSame(what, key);
      // A cursor, a job or an endpoint of another organization returns a page of the caller's own objects.
      const isList = /^page on|^list/.test(what);
      const allowed = [...statuses, ...(isList ? [200] : [])];
      expect(foreign).toMatchObject({ status: expect.toBeOneOf(allowed) });
      expect(JSON.stringify(foreign)).not.toContain(owner.organizationId);
    }
    expect(await readState()).toEqual(before);
  });

  it('gets only its own objects in every list', async () => {
    const key = actors['stranger'] ?? '';
    const lists = `/studio/jobs /usage /usage/summary?groupBy=key /storage/files
      /webhooks/deliveries /webhook-endpoints /api-keys /studio/recipes
      /studio/shares`;
    for (const path of lists.split(/\s+/)) {
      const list = await gateway.call<object>(`/api/v1${path}`, { key });
      expect(list.status).toBe(200);
      const text = JSON.stringify(list.body);
      for (const id of [owner.organizationId, owner.keyId, owned.job, owned.endpoint, owned.share])
        expect(text).not.toContain(id);
    }
  });

  it('has separate Idempotency-Keys, even with the same value', async () => {
    const answer = await gateway.call('/api/v1/studio/image/generate', {
      key: actors['stranger'] ?? '',
      headers: { 'idempotency-key': 'a-shared-word' },
      body: { prompt: 'his own tree' },
    });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('idempotent-replayed')).toBeNull();
  });

  it('is rejected by every operator endpoint', async () => {
    const real = (path: string): string =>
      path
        .replace(':organizationId', owner.organizationId)
        .replace(':jobId', owned.job)
        .replace(':keyId', owned.key)
        .replace(':userId', owner.userId);
    const body = { actor: 'me', reason: 'me', id: 'me', credits: 1 };
    const rejected = { status: 401, bytes: '{"error":"Unauthorized"}' };
    for (const key of [owner.key, actors['an admin elsewhere'] ?? '', null]) {
      for (const { method, path, takesBody } of operatorEndpoints) {
        const sent = { method, path: real(path), key, ...(takesBody && { body }) };
        expect(await send(sent)).toMatchObject(rejected);
      }
    }
  });

  it('is rejected without the scope of the operation', async () => {
    /** For each scope a key with all others. */
    const keys: Record<string, string> = {};
    for (const { method, requestPath, scope } of [...callerEndpoints, ...protocolEndpoints]) {
      if (scope === 'any' || scope === 'admin' || scope === 'open') continue;
      const others = scopes.filter((each) => !hasScope([each], scope));
      const key = (keys[scope] ??= (await gateway.newCaller({ credits: 0, scopes: others })).key);
      const answer = await send({ method, path: requestPath, key });
      expect({ requestPath, ...answer }).toMatchObject({ requestPath, status: 403 });
      expect(JSON.stringify(answer)).toContain(`the scope ${scope}`);
    }
  });
});

describe('in the same organization', () => {
  it('another user can read the jobs, and cannot change the keys', async () => {
    const key = await userKey(owner.organizationId, 'member');
    expect(await attempt('look at a job', owned, key)).toMatchObject({ status: 200 });
    for (const what of ['revoke a key', 'rotate a key']) {
      expect(await expectSame(what, key)).toMatchObject({ status: 404 });
    }
    expect((await gateway.call('/api/v1/usage')).status).toBe(200);
  });

  it('a viewer can read and change nothing', async () => {
    const key = await userKey(owner.organizationId, 'viewer');
    const before = await readState();
    const statuses: Record<string, unknown> = {};
    for (const what of Object.keys(attempts)) {
      const answer = await attempt(what, owned, key);
      statuses[what] = 'status' in answer && answer.status;
    }
    expect(statuses).toMatchObject({
      'look at a job': 200,
      'cancel a job that is done': 403,
      'cancel a job that waits': 403,
      'delete the media of a job': 403,
      'delete an upload': 403,
      'use a result by its unsigned URL': 403,
      'rotate a key': 403,
      'limit a key': 403,
      'read a webhook endpoint': 403,
      'pause a webhook endpoint': 403,
      'delete a webhook endpoint': 403,
      'rotate the secret of a webhook endpoint': 403,
      'test a webhook endpoint': 403,
      'replay a webhook endpoint': 403,
      'share a job': 403,
      'list the share links of a job': 200,
      'revoke a share link': 403,
      'read a recipe': 200,
      'delete a recipe': 403,
      'use a recipe': 403,
    });
    expect(await readState()).toEqual(before);
  });

  it('the owner can do all of this, so the objects of the rejections above exist', async () => {
    const reads = ['look at a job', 'wait for a job', 'listen to a job', 'read a webhook endpoint'];
    for (const what of [
      ...reads,
      'read a recipe',
      'use a recipe',
      'use a result by its unsigned URL',
    ]) {
      expect(await attempt(what, owned, owner.key)).toMatchObject({ status: 200 });
    }
  });
});
