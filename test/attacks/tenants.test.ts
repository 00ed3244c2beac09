/**
 * Every object against every caller. For an id of another organization, a caller gets the same
 * bytes as for an unknown id, so that no response reveals that the object exists. The same holds for the
 * browser token of one end user, and the objects of another end user of the organization.
 */
import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { hasScope, scopes } from '../../identity/access.ts';
import { useGateway, type TestCaller } from '../harness/gateway.ts';
import { callerEndpoints, operatorEndpoints, protocolEndpoints } from '../harness/endpoints.ts';
import { signUpload } from '../harness/uploads.ts';

const gateway = useGateway({ settled: 'last' });
/** The owner of the objects. */
let owner: TestCaller;
const owned = {
  job: '',
  waitingJob: '',
  key: '',
  upload: '',
  uploadUrl: '',
  resultUrl: '',
  endpoint: '',
  share: '',
  recipe: newId('job').replace('job_', 'saved-'),
};
type ObjectIds = typeof owned;
const actors: Record<string, string | null> = {};

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
  await gateway.call(`/api/v1/studio/recipes/${owned.recipe}`, { method: 'PUT', body: saved });

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

/** Removes the signature, with which the URL of a file opens for anyone. */
const removeSignature = (url: string): string => url.replace(/\?.*/, '');

/** A request: its method with its path below /api/v1, and its body. */
type Attempt = [route: string, body?: object];
const generateFrom = (imageUrls: string): Attempt => [
  'POST /studio/image/generate',
  { prompt: 'a tall tree', imageUrls },
];
const limit = { limit: { credits: 1, per: 'day' } };

/** Requests on an object, made from its ids. */
const attempts: Record<string, (ids: ObjectIds) => Attempt> = {
  'look at a job': ({ job }) => [`GET /studio/jobs/${job}`],
  'wait for a job': ({ waitingJob }) => [`GET /studio/jobs/${waitingJob}?wait=1`],
  'listen to a job': ({ job }) => [`GET /studio/jobs/${job}/events`],
  'cancel a job that is done': ({ job }) => [`POST /studio/jobs/${job}/cancel`],
  'cancel a job that waits': ({ waitingJob }) => [`POST /studio/jobs/${waitingJob}/cancel`],
  'delete the media of a job': ({ job }) => [`DELETE /studio/jobs/${job}/media`],
  'delete an upload': ({ upload }) => [`DELETE /storage/files/${upload}`],
  'read the timeline of a job': ({ job }) => [`GET /studio/jobs/${job}/timeline`],
  'page on from a job': ({ job }) => [`GET /studio/jobs?cursor=${job}`],
  'revoke a key': ({ key }) => [`DELETE /api-keys/${key}`],
  'rotate a key': ({ key }) => [`POST /api-keys/${key}/rotate`, {}],
  'limit a key': ({ key }) => [`PUT /api-keys/${key}/limit`, limit],
  'read a webhook endpoint': ({ endpoint }) => [`GET /webhook-endpoints/${endpoint}`],
  'pause a webhook endpoint': ({ endpoint }) => [
    `PATCH /webhook-endpoints/${endpoint}`,
    { paused: true },
  ],
  'delete a webhook endpoint': ({ endpoint }) => [`DELETE /webhook-endpoints/${endpoint}`],
  'rotate the secret of a webhook endpoint': ({ endpoint }) => [
    `POST /webhook-endpoints/${endpoint}/rotate`,
    {},
  ],
  'test a webhook endpoint': ({ endpoint }) => [`POST /webhook-endpoints/${endpoint}/test`],
  'replay a webhook endpoint': ({ endpoint }) => [
    `POST /webhook-endpoints/${endpoint}/replay`,
    { since: '2026-01-01T00:00:00Z' },
  ],
  'list the webhooks of an endpoint': ({ endpoint }) => [
    `GET /webhooks/deliveries?endpointId=${endpoint}`,
  ],
  'share a job': ({ job }) => [`POST /studio/jobs/${job}/share`, {}],
  'list the share links of a job': ({ job }) => [`GET /studio/shares?jobId=${job}`],
  'revoke a share link': ({ share }) => [`DELETE /studio/shares/${share}`],
  'read a recipe': ({ recipe }) => [`GET /studio/recipes/${recipe}`],
  'delete a recipe': ({ recipe }) => [`DELETE /studio/recipes/${recipe}`],
  'use a recipe': ({ recipe }) => ['POST /studio/image/generate', { recipe }],
  'use an upload by its id': ({ upload }) => generateFrom(upload),
  'use an upload by its unsigned URL': ({ uploadUrl }) => generateFrom(uploadUrl),
  'use a result by its unsigned URL': ({ resultUrl }) => generateFrom(resultUrl),
  'edit a result': ({ resultUrl: imageUrls }) => [
    'POST /studio/image/edit',
    { prompt: 'a taller tree', imageUrls },
  ],
  'enlarge a result': ({ resultUrl: imageUrl }) => ['POST /studio/image/upscale', { imageUrl }],
  'batch over a result': ({ resultUrl }) => [
    'POST /studio/image/batch',
    { imageUrls: [resultUrl], operation: 'upscale' },
  ],
  'transcribe an upload': ({ upload: audioUrl }) => ['POST /studio/audio/transcribe', { audioUrl }],
  'enlarge a film': ({ upload: videoUrl }) => ['POST /studio/video/upscale', { videoUrl }],
};
/** Objects of the end user ann. */
const anns: ObjectIds = { ...owned };

async function newToken(endUser: string, body: object = {}): Promise<string> {
  const path = `/api/v1/end-users/${endUser}/tokens`;
  const answer = await gateway.call<{ data: { token: string } }>(path, { body });
  expect(answer.status).toBe(200);
  return answer.body.data.token;
}

/** Tries a request on these objects. */
function attempt(name: string, ids: ObjectIds, key: string | null): Promise<object> {
  const [route, body] = attempts[name]?.(ids) ?? assert.fail(name);
  const [method = '', path = ''] = route.split(' ');
  return send({ method, path: `/api/v1${path}`, key, body });
}

/** Makes ids and URLs of objects that do not exist. They begin as the known ones, because errors quote the beginning. */
const makeUnknownIds = (ids: ObjectIds): ObjectIds =>
  JSON.parse(
    JSON.stringify(ids).replaceAll(/(?<=[0-9a-f]{20})[0-9a-f]{12}/g, () => newId('job').slice(-12)),
  ) as ObjectIds;

interface SentRequest {
  method: string;
  path: string;
  key: string | null;
  body?: object | undefined;
}

/** Sends a request, and returns the response without its date and the number of requests. */
async function send({ method, path, key, body }: SentRequest): Promise<object> {
  const answer = await fetch(gateway.url + path, {
    method,
    headers: {
      'x-request-id': 'the-same-request',
      ...(key !== null && { authorization: `Bearer ${key}` }),
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  const headers = Object.fromEntries(answer.headers);
  for (const name of ['date', 'x-ratelimit-remaining', 'x-ratelimit-reset']) delete headers[name];
  const sent = Object.values(body ?? {}).filter((value) => typeof value === 'string');
  // An error quotes the request; everything else must be the same.
  const text = sent.reduce((bytes, value) => bytes.replaceAll(value, 'sent'), await answer.text());
  return { status: answer.status, headers, bytes: text };
}

async function readState(): Promise<unknown> {
  return gateway.database.query(
    `SELECT (SELECT jsonb_agg(to_jsonb(r) ORDER BY id) FROM reservation r) AS reservations,
       (SELECT jsonb_agg(jsonb_build_object('id', id, 'revoked', revoked_at) ORDER BY id)
        FROM api_key) AS keys,
       (SELECT jsonb_agg(to_jsonb(e) ORDER BY id) FROM webhook_endpoint e) AS endpoints,
       (SELECT jsonb_agg(to_jsonb(c) ORDER BY name, version) FROM recipe c) AS recipes,
       (SELECT jsonb_agg(to_jsonb(s) ORDER BY id) FROM share_link s) AS shares,
       (SELECT count(*) FROM job) AS jobs, (SELECT count(*) FROM ledger_entry) AS entries`,
  );
}

/** Checks that the response to a request is the same for an unknown object; returns it. */
async function expectSame(what: string, key: string | null, ids = owned): Promise<object> {
  const foreign = { what, ...(await attempt(what, ids, key)) };
  expect(foreign).toEqual({ what, ...(await attempt(what, makeUnknownIds(ids), key)) });
  return foreign;
}

describe('a caller of another organization', () => {
  it.each([
    ['stranger', 400, 404],
    ['a viewer elsewhere', 400, 403, 404],
    ['an admin elsewhere', 400, 404],
    ['a stranger with one scope', 400, 403],
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

describe('two end users of one organization', () => {
  const allowed = [...callerEndpoints, ...protocolEndpoints].filter(
    ({ allowsTokens }) => allowsTokens,
  );
  /** Lists, which show ids, and their paths with everything that they can show. */
  const lists = [
    '/studio/jobs',
    '/studio/jobs?search=willow',
    '/studio/jobs?phase=awaiting_approval',
    '/studio/jobs/count',
    '/studio/jobs/count?search=willow',
    '/storage/files',
  ];
  /** Endpoints that show nothing of anybody's jobs and files. */
  const shared = [
    'GET /api/v1/models',
    'GET /api/v1/models/*id',
    'GET /api/v1/studio/models',
    'GET /api/v1/studio/voices',
  ];
  let bob: string;
  let ann: string;
  const forAnn = (body: object) => ({ body: { ...body, async: true, endUser: 'ann' } });

  beforeAll(async () => {
    [ann, bob] = [await newToken('ann'), await newToken('bob')];
    const done = await gateway.call('/api/v1/studio/image/generate', {
      ...forAnn({ prompt: 'a weeping willow' }),
      key: ann,
    });
    anns.job = done.body.data.jobId;
    const { result } = (await gateway.untilDone(anns.job, ann)).body.data;
    anns.resultUrl = removeSignature(result.images[0]?.url ?? '');
    // The server of the organization may start jobs for ann too.
    const waiting = await gateway.call('/api/v1/studio/image/generate', {
      ...forAnn({ prompt: '[[slow:900s]] [[no-webhook]] a slow willow' }),
      headers: { 'idempotency-key': 'a-word-of-both' },
    });
    anns.waitingJob = waiting.body.data.jobId;
    const { fileId, publicUrl } = await signUpload(gateway, { contentType: 'image/png' }, ann);
    anns.upload = fileId;
    anns.uploadUrl = removeSignature(publicUrl);
    const { key, endpoint, share, recipe } = owned;
    Object.assign(anns, { key, endpoint, share, recipe });
  });
  afterAll(async () => {
    await gateway.cancel(anns.waitingJob);
    await gateway.untilDone(anns.waitingJob);
  });

  it('see and change nothing of each other', async () => {
    const before = await readState();
    for (const what of Object.keys(attempts)) {
      const foreign = await expectSame(what, bob, anns);
      const isList = what === 'page on from a job';
      expect(foreign).toMatchObject({
        status: isList ? 200 : expect.toBeOneOf([400, 403, 404]),
      });
      expect(JSON.stringify(foreign)).not.toMatch(/willow|"ann"/);
    }
    // Nor what the organization has for itself.
    for (const what of ['look at a job', 'use an upload by its id', 'page on from a job'])
      await expectSame(what, bob, owned);
    expect(await readState()).toEqual(before);
    expect(await attempt('look at a job', anns, ann)).toMatchObject({ status: 200 });
    expect(await attempt('wait for a job', anns, ann)).toMatchObject({ status: 200 });
    expect(await attempt('use a result by its unsigned URL', anns, ann)).toMatchObject({
      status: 200,
    });
  });

  it('see only their own jobs and files in lists and counts', async () => {
    for (const path of lists) {
      const seen = await gateway.call<object>(`/api/v1${path}`, { key: bob });
      expect({ path, status: seen.status }).toEqual({ path, status: 200 });
      const text = JSON.stringify(seen.body);
      expect({ path, text }).toMatchObject({
        text: expect.not.stringMatching(/job_|file_|willow/),
      });
      if (path.includes('count')) expect(seen.body).toMatchObject({ data: { count: 0 } });
    }
    const own = await gateway.call<object>('/api/v1/studio/jobs?search=willow', { key: ann });
    expect(JSON.stringify(own.body)).toContain(anns.job);
    const ownFiles = await gateway.call<object>('/api/v1/storage/files', { key: ann });
    for (const id of [anns.job, anns.upload]) expect(JSON.stringify(ownFiles.body)).toContain(id);
    expect(JSON.stringify(ownFiles.body)).not.toContain(owned.upload);
    const other = await gateway.call('/api/v1/studio/jobs?endUser=ann', { key: bob });
    expect(other.status).toBe(403);
    expect(other.body.details[0]?.path).toBe('endUser');
  });

  it('receive only the events of their own jobs', async () => {
    const read = async (key: string): Promise<string> => {
      const leave = new AbortController();
      const answer = await fetch(`${gateway.url}/api/v1/studio/jobs/events`, {
        headers: { authorization: `Bearer ${key}` },
        signal: leave.signal,
      });
      let text = '';
      await gateway.untilDone(
        await gateway.startImage({ prompt: 'a later willow', endUser: 'ann' }),
      );
      const own = await gateway.startImage({ prompt: 'an oak' }, key);
      for await (const chunk of answer.body ?? []) {
        text += Buffer.from(chunk).toString();
        if (text.includes(`"jobId":"${own}"`) && text.includes('"status":"completed"')) break;
      }
      leave.abort();
      return text;
    };
    expect(await read(bob)).not.toMatch(/willow/);
    expect(await read(ann)).toMatch(/a slow willow[^]*a later willow/);
  });

  it('share no Idempotency-Keys with each other or with their organization', async () => {
    const ids: string[] = [];
    for (const key of [owner.key, ann, bob]) {
      const answer = await gateway.call('/api/v1/studio/image/generate', {
        key,
        headers: { 'idempotency-key': 'a-word-of-all' },
        body: { prompt: 'an elm' },
      });
      expect(answer.headers.get('idempotent-replayed')).toBeNull();
      ids.push(answer.headers.get('x-job-id') ?? '');
    }
    expect(new Set(ids).size).toBe(3);
  });

  it('cannot name another end user at any endpoint that starts something', async () => {
    for (const { method, requestPath, request, id } of allowed) {
      const [type, content] = Object.entries(request.content ?? {})[0] ?? ['application/json'];
      const body = request.example ?? content?.example;
      const startsNothing = /upload-url|count_tokens/.test(requestPath) || id === 'cancelJob';
      if (method !== 'POST' || startsNothing || type !== 'application/json') continue;
      const answer = await gateway.call(requestPath, {
        key: bob,
        body,
        headers: { 'x-end-user': 'ann' },
      });
      const path = `${id} ${JSON.stringify(answer.body)}`;
      expect({ path, status: answer.status }).toEqual({ path, status: 403 });
      expect(path).toContain('X-End-User');
    }
  });

  it('are tested at every endpoint that a token may use; all others reject it', async () => {
    const tried = Object.keys(attempts).map((what) => attempts[what]?.(anns)[0] ?? '');
    const matches = (method: string, path: string) => {
      const pattern = path.replaceAll(/[:*]\w+/g, '[^/]+');
      const isTried = new RegExp(`^${method} ${pattern.replace('/api/v1', '')}(?:\\?|$)`);
      return tried.some((route) => isTried.test(route));
    };
    for (const { method, path, requestPath, allowsTokens } of [
      ...callerEndpoints,
      ...protocolEndpoints,
    ]) {
      if (!allowsTokens) {
        const answer = await send({ method, path: requestPath, key: bob });
        expect({ requestPath, ...answer }).toMatchObject({ requestPath, status: 403 });
        expect(JSON.stringify(answer)).toContain('A browser token may not use this endpoint.');
      } else if (/[:*](?!id)/.test(path)) {
        expect([method, path, matches(method, path)]).toEqual([method, path, true]);
      } else if (
        method === 'GET' &&
        !shared.includes(`${method} ${path}`) &&
        !path.endsWith('/events')
      ) {
        expect(lists).toContain(path.replace('/api/v1', ''));
      }
    }
  });
});
