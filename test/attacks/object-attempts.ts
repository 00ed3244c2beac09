/** Requests on objects of an organization, for tests of callers that must not see them. */
import assert from 'node:assert/strict';
import { expect } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { TestGateway } from '../harness/gateway.ts';

/** Ids and URLs of objects. */
export interface ObjectIds {
  job: string;
  waitingJob: string;
  key: string;
  upload: string;
  uploadUrl: string;
  resultUrl: string;
  endpoint: string;
  share: string;
  recipe: string;
  /** File of a batch in OpenAI's format. */
  lines: string;
  batch: string;
}

/** Removes the signature, with which the URL of a file opens for anyone. */
export const removeSignature = (url: string): string => url.replace(/\?.*/, '');

/** A request: its method with its path below /api/v1, and its body. */
type Attempt = [route: string, body?: object];
const generateFrom = (imageUrls: string): Attempt => [
  'POST /studio/image/generate',
  { prompt: 'a tall tree', imageUrls },
];
const limit = { limit: { credits: 1, per: 'day' } };

/** Makes a request for a batch. */
export const batchOf = (input: string) => ({
  input_file_id: input,
  endpoint: '/v1/responses',
  completion_window: '24h',
});

/** Requests on an object, made from its ids. */
export const attempts: Record<string, (ids: ObjectIds) => Attempt> = {
  'look at a job': ({ job }) => [`GET /studio/jobs/${job}`],
  'wait for a job': ({ waitingJob }) => [`GET /studio/jobs/${waitingJob}?wait=1`],
  'listen to a job': ({ job }) => [`GET /studio/jobs/${job}/events`],
  'cancel a job that is done': ({ job }) => [`POST /studio/jobs/${job}/cancel`],
  'cancel a job that waits': ({ waitingJob }) => [`POST /studio/jobs/${waitingJob}/cancel`],
  'delete the media of a job': ({ job }) => [`DELETE /studio/jobs/${job}/media`],
  'delete an upload': ({ upload }) => [`DELETE /storage/files/${upload}`],
  'get a file of a batch': ({ lines }) => [`GET /files/${lines}`],
  'read a file of a batch': ({ lines }) => [`GET /files/${lines}/content`],
  'page on from a file': ({ lines }) => [`GET /files?after=${lines}`],
  'delete a file of a batch': ({ lines }) => [`DELETE /files/${lines}`],
  'make a batch of a file': ({ lines }) => ['POST /batches', batchOf(lines)],
  'get a batch': ({ batch }) => [`GET /batches/${batch}`],
  'page on from a batch': ({ batch }) => [`GET /batches?after=${batch}`],
  'cancel a batch': ({ batch }) => [`POST /batches/${batch}/cancel`],
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
/** Makes ids and URLs of objects that do not exist. They begin as the known ones, because errors quote the beginning. */
const makeUnknownIds = (ids: ObjectIds): ObjectIds =>
  JSON.parse(
    JSON.stringify(ids).replaceAll(/(?<=[0-9a-f]{20})[0-9a-f]{12}/g, () => newId('job').slice(-12)),
  ) as ObjectIds;

export interface SentRequest {
  method: string;
  path: string;
  key: string | null;
  body?: object | undefined;
}

/** Creates the functions that try the requests. */
export function createAttempts(gateway: TestGateway, owned: ObjectIds) {
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
    const text = sent.reduce(
      (bytes, value) => bytes.replaceAll(value, 'sent'),
      await answer.text(),
    );
    return { status: answer.status, headers, bytes: text };
  }

  /** Tries a request on these objects. */
  function attempt(name: string, ids: ObjectIds, key: string | null): Promise<object> {
    const [route, body] = attempts[name]?.(ids) ?? assert.fail(name);
    const [method = '', path = ''] = route.split(' ');
    return send({ method, path: `/api/v1${path}`, key, body });
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

  return { send, attempt, readState, expectSame };
}
