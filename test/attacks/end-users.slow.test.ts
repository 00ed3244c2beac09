/**
 * Two end users of one organization, each with browser tokens, see nothing of each other: for an id of the
 * other, a token gets the same bytes as for an unknown id (tenants.test.ts).
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { useGateway } from '../harness/gateway.ts';
import { callerEndpoints, protocolEndpoints } from '../harness/endpoints.ts';
import { signUpload } from '../harness/uploads.ts';
import { attempts, createAttempts, removeSignature, type ObjectIds } from './object-attempts.ts';

const gateway = useGateway({ settled: 'last' });
/** Objects of the end user ann. */
const anns: ObjectIds = {
  job: '',
  waitingJob: '',
  key: '',
  upload: '',
  uploadUrl: '',
  resultUrl: '',
  endpoint: newId('webhookEndpoint'),
  share: newId('shareLink'),
  recipe: 'postcard',
  lines: newId('upload'),
  batch: newId('bulk').replace('bulk_', 'batch_'),
};
/** Objects that the organization has for itself. */
const owned: ObjectIds = { ...anns };
const { send, attempt, readState, expectSame } = createAttempts(gateway, anns);

async function newToken(endUser: string, body: object = {}): Promise<string> {
  const path = `/api/v1/end-users/${endUser}/tokens`;
  const answer = await gateway.call<{ data: { token: string } }>(path, { body });
  expect(answer.status).toBe(200);
  return answer.body.data.token;
}

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
    // The organization can also start jobs for ann with its API key.
    const waiting = await gateway.call('/api/v1/studio/image/generate', {
      ...forAnn({ prompt: '[[slow:900s]] [[no-webhook]] a slow willow' }),
      headers: { 'idempotency-key': 'a-word-of-both' },
    });
    anns.waitingJob = waiting.body.data.jobId;
    const { fileId, publicUrl } = await signUpload(gateway, { contentType: 'image/png' }, ann);
    anns.upload = fileId;
    anns.uploadUrl = removeSignature(publicUrl);
    anns.key = gateway.caller.keyId;
    owned.job = await gateway.startImage({ prompt: 'an ash' });
    await gateway.untilDone(owned.job);
    owned.upload = (await signUpload(gateway, { contentType: 'image/png' })).fileId;
  });
  afterAll(async () => {
    await gateway.cancel(anns.waitingJob);
    await gateway.untilDone(anns.waitingJob);
    await gateway.expectSettled();
  });

  it('see and change nothing of each other', async () => {
    const before = await readState();
    for (const what of Object.keys(attempts)) {
      const foreign = await expectSame(what, bob);
      const isList = what === 'page on from a job';
      expect(foreign).toMatchObject({
        status: isList ? 200 : expect.toBeOneOf([400, 403, 404]),
      });
      expect(JSON.stringify(foreign)).not.toMatch(/willow|"ann"/);
    }
    // Nor what the organization has for itself.
    for (const what of ['look at a job', 'use an upload by its id', 'page on from a job'])
      expect(await expectSame(what, bob, owned)).not.toMatchObject({ status: 500 });
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
    for (const key of [gateway.caller.key, ann, bob]) {
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
