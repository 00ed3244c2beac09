/** Background responses: chat jobs of OpenAI's Responses API. */
import { MockActivityEnvironment } from '@temporalio/testing';
import type { Response } from 'openai/resources/responses/responses';
import { expect, it } from 'vitest';
import { answerChat } from '../../activities/answer-chat.ts';
import { newId } from '../../domain/ids.ts';
import type { JobPlan } from '../../domain/job-plan.ts';
import { createShares } from '../../platform/shares.ts';
import { useGateway } from '../harness/gateway.ts';
import { sweepOnce } from '../harness/sweeps.ts';
import { until } from '../harness/until.ts';
import type { StudioBody } from '../harness/gateway.ts';
import { readChats } from './chat-account.ts';
import { makeClients, useClients } from './chat-clients.ts';

const gateway = useGateway({ settled: 'last' });
const clients = useClients(gateway);
const responses = () => clients.openai.responses;

/** Polls a response as the documentation of OpenAI does, until it has ended. */
async function poll(id: string): Promise<Response> {
  return until(async () => {
    const response = await responses().retrieve(id);
    return response.status === 'queued' || response.status === 'in_progress' ? null : response;
  });
}

it('a background response is queued, polled and charged once', async () => {
  const begun = await responses().create({
    model: 'gpt-4o',
    input: 'hello there',
    background: true,
  });
  expect(begun).toMatchObject({
    object: 'response',
    status: 'queued',
    background: true,
    output: [],
  });
  const response = await poll(begun.id);
  expect(response).toMatchObject({
    id: begun.id,
    status: 'completed',
    background: true,
    model: 'gpt-4o',
    output_text: 'You said: hello there',
    usage: { input_tokens: 2, output_tokens: 4, total_tokens: 6 },
    creditsConsumed: (2 * 250 + 4 * 1000) / 1e6,
  });
  expect(await readChats(gateway, clients.caller)).toMatchObject([
    { id: begun.id, state: 'charged', charged: 2 * 250 + 4 * 1000, input_tokens: 2 },
  ]);
});

it('a canceled response is charged what was delivered, and keeps its text', async () => {
  const input = '[[words:5000]] [[slow-chunks:20ms]]';
  const { id } = await responses().create({ model: 'gpt-4o', input, background: true });
  await until(async () => (await responses().retrieve(id)).output_text !== '');
  // The sweeper leaves it to its workflow, also if its reservation has expired. The next checkpoint
  // follows after some seconds.
  await until(async () => (await readChats(gateway, clients.caller))[0]?.checkpoint_micro);
  const expired = `UPDATE reservation SET expires_at = now() - interval '1 hour' WHERE id = $1`;
  await gateway.database.query(expired, [id]);
  expect(await sweepOnce(gateway)).toMatchObject({ chats: 0, released: 0 });
  const canceled = await responses().cancel(id);
  expect(canceled.status).toBe('cancelled');
  expect(JSON.stringify(canceled.output)).toContain('0xxx 1xxx');
  const [row] = await readChats(gateway, clients.caller);
  expect(row).toMatchObject({ id, state: 'charged' });
  expect(canceled.usage?.output_tokens).toBe(row?.output_tokens);
  expect(await responses().cancel(id)).toEqual(canceled);
});

it('another organization finds nothing, and a deleted response is gone', async () => {
  const { id } = await responses().create({
    model: 'gpt-4o',
    input: 'a secret wharf',
    background: true,
  });
  await poll(id);
  const { openai: other } = makeClients(gateway, await gateway.newCaller({ credits: 1 }));
  for (const call of [
    () => other.responses.retrieve(id),
    () => other.responses.cancel(id),
    () => other.responses.delete(id),
    () => other.responses.retrieve(id, { stream: true }),
  ])
    await expect(call()).rejects.toMatchObject({ status: 404, code: 'NOT_FOUND' });
  const foreign = await gateway.call(`/api/v1/responses/${id}/cancel`, { method: 'POST' });
  expect(foreign).toMatchObject({ status: 404, body: { error: { code: 'NOT_FOUND' } } });
  await responses().delete(id);
  await expect(responses().retrieve(id)).rejects.toMatchObject({ status: 404 });
  const { key } = clients.caller;
  const job = await gateway.call(`/api/v1/studio/jobs/${id}`, { key });
  expect(job.body).toMatchObject({ data: { status: 'completed', prompt: null, result: null } });
  const { body } = await gateway.call(`/api/v1/studio/jobs/${id}/timeline`, { key });
  expect(body).toMatchObject({ data: { request: { model: 'gpt-4o' } } });
  expect(JSON.stringify(body)).not.toContain('a secret wharf');
});

it('the stream of a response ends with the key that reads it', async () => {
  const { organizationId } = clients.caller;
  const input = '[[words:5000]] [[slow-chunks:20ms]]';
  const { id } = await responses().create({ model: 'gpt-4o', input, background: true });
  const second = await gateway.newKey({}, clients.caller.key);
  const { openai: reader } = makeClients(gateway, { ...clients.caller, ...second });
  const stream = await reader.responses.retrieve(id, { stream: true });
  const read = (async () => {
    for await (const event of stream) if (event.type === 'response.completed') return 'completed';
    return 'ended';
  })().catch(() => 'ended');
  await gateway.database.query(
    'UPDATE api_key SET revoked_at = now() WHERE organization_id = $1 AND id = $2',
    [organizationId, second.keyId],
  );
  expect(await read).toBe('ended');
  expect((await responses().cancel(id)).status).toBe('cancelled');
});

it('an organization that has its share of the slots waits, and another one does not', async () => {
  const chatSlots = createShares(3);
  const { services } = gateway.api;
  const run = (organizationId: string) => {
    const plan = { jobId: newId('job'), organizationId } as JobPlan;
    const task = { plan, reservedMicro: 1, remainingMs: 60_000 };
    return new MockActivityEnvironment().run(answerChat, { ...services, chatSlots }, task);
  };
  const releases = [chatSlots.take('org_one'), chatSlots.take('org_one')];
  await expect(run('org_one')).rejects.toMatchObject({ type: 'PROVIDER_BUSY' });
  // No job has this id, so there is nothing to answer.
  expect(await run('org_two')).toBeUndefined();
  releases[0]?.();
  expect(await run('org_one')).toBeUndefined();
  expect(chatSlots.countHeld('org_one')).toBe(1);
});

it('chat jobs count in the limit of open jobs, and texts that are deleted while they run stay deleted', async () => {
  const { key } = clients.caller;
  const limits = { jobsMax: 1 };
  const path = `/organizations/${clients.caller.organizationId}/limits`;
  expect((await gateway.admin(path, limits, 'PUT')).status).toBe(200);
  const input = 'a secret wharf [[words:5000]] [[slow-chunks:20ms]]';
  const { id } = await responses().create({ model: 'gpt-4o', input, background: true });
  const messages = [{ role: 'user', content: 'hello' }];
  const body = { model: 'gpt-4o', messages };
  const second = await gateway.call('/api/v1/chat', { key, body: { ...body, async: true } });
  expect(second).toMatchObject({
    status: 429,
    body: { error: 'JOBS_MAX_REACHED', limitOf: 'organization', limit: 1, open: 1 },
  });
  // Chats that end with their connection are not jobs.
  expect((await gateway.call('/api/v1/chat', { key, body })).status).toBe(200);
  const shown = await gateway.call('/api/v1/key', { key });
  expect(shown.body).toMatchObject({ organizationLimits: { jobsMax: 1, jobsOpen: 1 } });
  await gateway.api.services.chatJobs.hide(id);
  const read = () => gateway.call<StudioBody<ShownJob>>(`/api/v1/studio/jobs/${id}`, { key });
  expect((await read()).body.data).toMatchObject({ prompt: null, result: null });
  await gateway.cancel(id, key);
  await gateway.untilDone(id, key);
  const rows = 'SELECT FROM job WHERE id = $1 AND (request, outputs)::text LIKE $2';
  expect(await gateway.database.query(rows, [id, '%wharf%'])).toEqual([]);
  const third = await gateway.call('/api/v1/chat', { key, body: { ...body, async: true } });
  expect(third).toMatchObject({
    status: 202,
    body: { data: { jobId: expect.stringMatching(/^job_/), status: 'queued' } },
  });
  await gateway.untilDone((third.body as StudioBody<Ticket>).data.jobId, key);
});

interface Ticket {
  jobId: string;
  statusUrl: string;
}
interface ShownJob {
  status: string;
  type: string;
  result: { content?: string } | null;
  billing: { charged: number };
}

it('an asynchronous chat is a job, with its text, its usage and a webhook', async () => {
  const { key } = clients.caller;
  const webhookUrl = gateway.receiver.at('/chat-job');
  const body = {
    model: 'gpt-4o',
    messages: [{ role: 'user', content: 'hello there' }],
    metadata: { team: 'harbour' },
    async: true,
  };
  const options = { key, body: { ...body, webhookUrl }, headers: { 'idempotency-key': 'one' } };
  const started = await gateway.call<StudioBody<Ticket>>('/api/v1/chat', options);
  expect(started).toMatchObject({
    status: 202,
    body: { credits: { used: 0, cost: expect.any(Number) } },
  });
  const { jobId, statusUrl } = started.body.data;
  expect(started.headers.get('location')).toBe(statusUrl);
  const path = `${new URL(statusUrl).pathname}?wait=30`;
  const job = await until(async () => {
    const { data } = (await gateway.call<StudioBody<ShownJob>>(path, { key })).body;
    return data.status === 'completed' ? data : null;
  });
  const result = { model: 'gpt-4o', content: 'You said: hello there', finishReason: 'stop' };
  expect(job).toMatchObject({ type: 'chatAnswer', prompt: 'hello there', result });
  const repeated = await gateway.call<StudioBody<Ticket>>('/api/v1/chat', options);
  expect(repeated).toMatchObject({ status: 202, body: { data: { jobId } } });
  expect(repeated.headers.get('idempotent-replayed')).toBe('true');
  const usage = await gateway.call<{ usage: object[] }>('/api/v1/usage', { key });
  expect(usage.body.usage).toMatchObject([
    { id: jobId, jobId, type: 'chatAnswer', inputTokens: 2, outputTokens: 4, status: 'charged' },
  ]);
  // A list does not contain the answers, which may be long.
  const list = await gateway.call<StudioBody<object[]>>(
    '/api/v1/studio/jobs?metadata[team]=harbour',
    { key },
  );
  expect(list.body.data).toMatchObject([{ jobId, billing: { charged: 0.0045 }, result: null }]);
  const requests = await gateway.call<StudioBody<object[]>>('/api/v1/requests', { key });
  expect(requests.body.data).toMatchObject([{ id: jobId, kind: 'chat', status: 'completed' }]);
  const [delivery] = await gateway.receiver.untilReceived('/chat-job', 1);
  expect(delivery?.body).toMatchObject({ type: 'chat.completed', data: { jobId, result } });
  // After some time, only its usage remains.
  await sweepOnce(gateway, { CHAT_ANSWERS_KEPT_MS: 0 });
  const { data: kept } = (await gateway.call<StudioBody<object>>(path, { key })).body;
  expect(kept).toMatchObject({ jobId, status: 'completed', result: null, prompt: null });
  const rows = 'SELECT FROM chat_job FULL JOIN chat_piece ON job_id = id WHERE $1 IN (id, job_id)';
  expect(await gateway.database.query(rows, [jobId])).toEqual([]);
  expect((await gateway.call('/api/v1/usage', { key })).body).toMatchObject(usage.body);
});

it('an asynchronous completion is OpenAI’s, and fields that do not fit are rejected by name', async () => {
  const { key } = clients.caller;
  const path = '/api/v1/chat/completions';
  const body = { model: 'claude-sonnet-5', messages: [{ role: 'user', content: 'hello' }] };
  const { data } = (
    await gateway.call<StudioBody<Ticket>>(path, { key, body: { ...body, async: true } })
  ).body;
  const done = await gateway.untilDone(data.jobId, key);
  expect(done.body.data).toMatchObject({
    status: 'completed',
    result: { object: 'chat.completion', choices: [{ message: { content: 'You said: hello' } }] },
  });
  const media = `/api/v1/studio/jobs/${data.jobId}/media`;
  const deleted = await gateway.call(media, { key, method: 'DELETE' });
  expect(deleted.body).toMatchObject({ data: { result: null, prompt: null } });
  const texts = 'SELECT FROM job WHERE id = $1 AND (request, outputs)::text LIKE $2';
  expect(await gateway.database.query(texts, [data.jobId, '%hello%'])).toEqual([]);
  for (const [field, fields] of [
    ['stream', { async: true, stream: true }],
    ['webhookUrl', { webhookUrl: 'https://example.com' }],
    ['webhookEvents', { webhookEvents: ['completed'] }],
    ['webhookUrl', { async: true, webhookUrl: 'https://10.0.0.1/' }],
  ] as const) {
    const { status, body: error } = await gateway.call<{ error: { param: string } }>(path, {
      key,
      body: { ...body, ...fields },
    });
    expect({ status, param: error.error.param }).toEqual({ status: 400, param: field });
  }
});
