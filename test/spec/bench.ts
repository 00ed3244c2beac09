/** Checks of the lines of the specification: real requests, each by a caller of its own, and plans. */
import assert from 'node:assert/strict';
import { expect } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { capabilities } from '../../studio/capabilities/capability-registry.ts';
import type { Capability } from '../../studio/capabilities/capability.ts';
import { planRequest, catchRejection } from '../harness/capability.ts';
import type { Answer, TestCaller, TestGateway } from '../harness/gateway.ts';

/** A body whose fields are not typed. */
export type Loose = Record<string, unknown>;

/** Inputs that can be read, and the gateway. */
export interface Bench {
  gateway: TestGateway;
  picture: string;
  film: string;
  /** A recording as MP3. */
  speech: Uint8Array<ArrayBuffer>;
  speechUrl: string;
}

/** A check of one statement of a line. */
export type Check = (bench: Bench) => Promise<void>;

/** A line of the specification. */
export interface SpecLine {
  section: string;
  /** Texts of the section, word for word. */
  quotes: readonly string[];
  checks: readonly Check[];
}

/** Returns lines of a section by their quotes; ` … ` separates several quotes of one line. */
export function defineLines(
  section: string,
  lines: Record<string, Check | readonly Check[]>,
): SpecLine[] {
  return Object.entries(lines).map(([quotes, checks]) => ({
    section,
    quotes: quotes.split(' … '),
    checks: [checks].flat(),
  }));
}

/** A request, whose body may need the inputs of the bench. */
export interface Request {
  method: 'GET' | 'POST' | 'DELETE';
  path: string;
  body?: object | string | ((bench: Bench) => object);
  headers?: Record<string, string>;
}

/** Returns a request with more fields in its body. */
export type Ask = (fields: object) => Request;

/** A POST below /api/v1. */
export function post(path: string, body?: Request['body']): Request {
  return { method: 'POST', path: `/api/v1${path}`, ...(body !== undefined && { body }) };
}

/** A GET below /api/v1. */
export const get = (path: string): Request => ({ method: 'GET', path: `/api/v1${path}` });

/** A DELETE below /api/v1. */
export const remove = (path: string): Request => ({ method: 'DELETE', path: `/api/v1${path}` });

/** Responses to new callers; the same request of another new caller has the same response. */
const answered = new Map<string, Promise<Answer<Loose>>>();

/** Sends a request with the key of a caller: by default a new one; without a key if it is null. */
export async function send(
  bench: Bench,
  request: Request,
  caller?: TestCaller | null,
): Promise<Answer<Loose>> {
  const { method, path, headers = {} } = request;
  const written = makeBody(bench, request);
  const call = async (key: string | null): Promise<Answer<Loose>> => {
    const options = { method, key, headers, ...(written !== undefined && { body: written }) };
    return inServiceShape(await bench.gateway.call<Loose>(path, options));
  };
  if (caller !== undefined) return call(caller && caller.key);
  const id = JSON.stringify([method, path, written]);
  const known =
    answered.get(id) ?? bench.gateway.newCaller({ credits: 10_000 }).then(({ key }) => call(key));
  answered.set(id, known);
  return known;
}

/** A caller of rejected requests, and the number of requests that its minute still allows. */
let rejected: { caller: Promise<TestCaller>; left: number } | null = null;

/** Sends a request that is rejected, with the key of a caller that sends only such requests. */
async function sendRejected(bench: Bench, request: Request): Promise<Answer<Loose>> {
  if (!rejected || rejected.left === 0) {
    rejected = { caller: bench.gateway.newCaller({ credits: 10_000 }), left: 50 };
  }
  rejected.left -= 1;
  return send(bench, request, await rejected.caller);
}

/** Codes of OpenAI on the alias of chat, for errors on which its clients act, and the specified ones. */
const specifiedCodes: Record<string, string> = {
  model_not_found: 'UNKNOWN_MODEL',
  insufficient_quota: 'INSUFFICIENT_CREDITS',
  rate_limit_exceeded: 'Rate limit exceeded. Please slow down.',
};

/** The alias of chat reports errors in OpenAI's shape (test/chat/openai-client.test.ts). */
function inServiceShape(answer: Answer<Loose>): Answer<Loose> {
  const { error } = answer.body;
  if (typeof error !== 'object' || error === null || !('code' in error)) return answer;
  if (error.code === 'invalid_api_key') return { ...answer, body: { error: 'Unauthorized' } };
  const code = specifiedCodes[String(error.code)] ?? error.code;
  return { ...answer, body: { ...answer.body, error: code } };
}

function expectBody({ path }: Request, answer: Answer<Loose>, status: number, body: object): void {
  expect({ ...answer, path }).toMatchObject({ path, status, body });
}

/** Sends a request, checks the status of the response and fields of its body, and returns it. */
export async function expectAnswer(
  bench: Bench,
  request: Request,
  caller: TestCaller | undefined,
  status: number,
  fields: object,
): Promise<Answer<Loose>> {
  const answer = await send(bench, request, caller);
  expectBody(request, answer, status, fields);
  return answer;
}

/** The answer has this status, and its body these fields. */
export function answers(request: Request, status: number, body: object = {}): Check {
  return async (bench) => {
    const answer = await (status < 400 ? send : sendRejected)(bench, request);
    expectBody(request, answer, status, body);
  };
}

/** Each request is done or accepted. */
export function takes(...requests: Request[]): Check {
  return async (bench) => {
    await Promise.all(requests.map((request) => accepted(bench, request)));
  };
}

/** Returns the body of the response to a request that is done or accepted. */
async function accepted(bench: Bench, request: Request): Promise<Loose> {
  const { status, body } = await send(bench, request);
  expect([200, 202], JSON.stringify({ request, body })).toContain(status);
  return body;
}

/** Each Studio request has a plan, which applies every rule about fields. */
export function plans(...requests: Request[]): Check {
  return async (bench) => {
    for (const request of requests) {
      const { calls } = planRequest(requireCapability(request), makeBody(bench, request) as object);
      expect(calls.length, JSON.stringify(request)).toBeGreaterThan(0);
    }
  };
}

/**
 * The first values of a field are accepted, and the others rejected. Studio requests with valid
 * values are planned, not sent.
 */
export function field(ask: Ask, name: string, valid: unknown[], invalid: unknown[] = []): Check[] {
  const requests = valid.map((value) => ask({ [name]: value }));
  return [
    ...requests.map((request) => (findCapability(request) ? plans(request) : takes(request))),
    ...invalid.map((value) => rejects(ask({ [name]: value }), name)),
  ];
}

const findCapability = ({ path }: Request) =>
  capabilities.find((each) => `/api/v1${each.path}` === path);

function requireCapability(request: Request): Capability {
  return findCapability(request) ?? assert.fail(`${request.path} has no plan`);
}

function makeBody(bench: Bench, { body }: Request): object | string | undefined {
  return typeof body === 'function' ? body(bench) : body;
}

/** Fields of which a rejection was sent. */
const rejectedFields = new Set<string>();

/**
 * The request is a 400 that names the field. Further Studio requests that are wrong in a field are
 * rejected by the schema or the plan, which hold every rule about fields but those of recordings.
 */
export function rejects(request: Request, name: string, code = 'INVALID_REQUEST'): Check {
  const place = `${request.path} ${name} ${code}`;
  const capability = findCapability(request);
  const isPlanned = capability && !capability.recordings;
  const isSent = !isPlanned || !rejectedFields.has(place);
  rejectedFields.add(place);
  return async (bench) => {
    const { error, details } = isSent
      ? await readRejection(bench, request)
      : planRejection(request, makeBody(bench, request) as object);
    expect(error, JSON.stringify({ request, details })).toBe(code);
    expect(details.map(({ path }) => path.split('.')[0])).toContain(name);
  };
}

interface Rejection {
  error: unknown;
  details: { path: string }[];
}

async function readRejection(bench: Bench, request: Request): Promise<Rejection> {
  const { status, body } = await sendRejected(bench, request);
  expect(status, JSON.stringify(body)).toBe(400);
  return { error: body['error'], details: body['details'] as Rejection['details'] };
}

function planRejection(request: Request, body: object): Rejection {
  const { code, status, details } = catchRejection(requireCapability(request), body);
  expect(status).toBe(400);
  return { error: code, details: details ?? [] };
}

/** The provider receives these fields with the request, which is found by its text or by its job. */
export function sends(request: Request, match: string | null, fields: object): Check {
  return async (bench) => {
    const body = await accepted(bench, request);
    const query = match === null ? { jobId: readJobId(body) } : { match };
    await expect
      .poll(async () => (await bench.gateway.sandbox.submits(query)).at(-1)?.body)
      .toMatchObject(fields);
  };
}

function readJobId(ticket: Record<string, unknown>): string {
  return (ticket['data'] as { jobId: string }).jobId;
}

/** An accepted job ends with this result. */
export function completesWith(request: Request, result: object): Check {
  return async (bench) => {
    const caller = await bench.gateway.newCaller({ credits: 10_000 });
    const ticket = await send(bench, request, caller);
    expect(ticket.status, JSON.stringify(ticket.body)).toBe(202);
    const ended = await bench.gateway.untilDone(readJobId(ticket.body), caller.key);
    expect(ended.body.data).toMatchObject({ status: 'completed', result });
  };
}

/** A valid request for every endpoint of the specification. */
export const endpoints: readonly Request[] = [
  post('/chat', { model: 'gpt-4o', messages: [{ role: 'user', content: 'hello' }] }),
  post('/chat/completions', { model: 'gpt-4o', messages: [{ role: 'user', content: 'hello' }] }),
  get('/models'),
  get('/models/gpt-4o'),
  get('/api-keys'),
  post('/api-keys', { name: 'of the table' }),
  remove('/api-keys/key_00000000000000000000000000000000'),
  get('/usage'),
  post('/storage/upload-url'),
  ...capabilities.map(({ path }) => post(path, (bench) => studioBody(path, bench))),
];

/** Returns a valid body for a Studio endpoint. */
function studioBody(path: string, { picture, film, speechUrl }: Bench): Loose {
  const bodies: Record<string, Loose> = {
    '/studio/image/generate': { prompt: 'a pier' },
    '/studio/image/edit': { prompt: 'paint it', imageUrls: [picture] },
    '/studio/image/upscale': { imageUrl: picture },
    '/studio/image/remove-background': { imageUrl: picture },
    '/studio/image/batch': { operation: 'upscale', imageUrls: [picture] },
    '/studio/voiceover/generate': { text: 'Welcome.', title: 'Greeting' },
    '/studio/dialogue/generate': { inputs: [{ text: 'Hi.', voiceId: 'adam' }], title: 'Talk' },
    '/studio/music/plan': { prompt: 'a song of the sea' },
    '/studio/music/generate': { prompt: 'a song of the sea' },
    '/studio/video/generate': { prompt: 'waves' },
    '/studio/video/upscale': { videoUrl: film },
    '/studio/video/remove-background': { videoUrl: film },
    '/studio/video/merge': { videoUrls: [film, film] },
    '/studio/sfx/generate': { prompt: 'a horn' },
    '/studio/audio/transcribe': { audioUrl: speechUrl },
  };
  return bodies[path] ?? assert.fail(`${path} is not in the specification`);
}

/** The endpoints of these paths. */
export function selectEndpoints(...paths: string[]): Request[] {
  return endpoints.filter(({ path }) => paths.some((one) => path.startsWith(`/api/v1${one}`)));
}

type RequestCheck = (bench: Bench, request: Request) => Promise<void>;

/** Returns a check that runs once for each request, however many lines use it. */
function checkEach(check: RequestCheck): (...requests: Request[]) => Check {
  const known = new Map<string, Promise<void>>();
  return (...requests) =>
    async (bench) => {
      const all = requests.map((request) => {
        const key = `${request.method} ${request.path}`;
        const outcome = known.get(key) ?? check(bench, request);
        known.set(key, outcome);
        return outcome;
      });
      await Promise.all(all);
    };
}

/** Without a key, and with a wrong one: 401 and exactly this body. */
export const needsKey = checkEach(async (bench, request) => {
  const wrong = { organizationId: '', userId: '', keyId: '', key: 'gk_live_wrong' };
  for (const caller of [null, wrong]) {
    const { status, body } = await send(bench, request, caller);
    const { path } = request;
    expect({ path, status, body }).toEqual({ path, status: 401, body: { error: 'Unauthorized' } });
  }
});

/** A valid key without the right: 403 with the error object. */
export const needsRight = checkEach(async (bench, request) => {
  const scopes = request.path.includes('/models') ? ['chat' as const] : ['models:read' as const];
  const caller = await bench.gateway.newCaller({ credits: 10_000, scopes });
  const forbidden = { error: 'FORBIDDEN', message: expect.any(String) };
  await expectAnswer(bench, request, caller, 403, forbidden);
});

/** 402 if the balance is too small. */
export const needsCredits = checkEach(async (bench, request) => {
  const caller = await bench.gateway.newCaller({ credits: 0.000_001 });
  await expectAnswer(bench, request, caller, 402, { error: 'INSUFFICIENT_CREDITS' });
});

/** 429 if the six-hour window is used up, although the balance could pay. */
export const needsWindow = checkEach(async (bench, request) => {
  const caller = await bench.gateway.newCaller({ credits: 10_000, windowCredits: 1000 });
  const { ledger } = bench.gateway.api.services;
  const whole = { kind: 'studio', amountMicro: 1_000_000_000, ttlMs: 60_000 } as const;
  const { organizationId } = caller;
  const id = newId('job');
  await ledger.reserve({ organizationId, id, ...whole });
  const answer = await send(bench, request, caller);
  await ledger.settle({ organizationId, id, to: 'released', amountMicro: 0, reason: 'test' });
  expectBody(request, answer, 429, { error: 'WINDOW_EXHAUSTED', resetAt: expect.any(String) });
  const leftMs = Date.parse(String(answer.body['resetAt'])) - Date.now();
  expect(leftMs).toBeGreaterThan(5.9 * 3_600_000);
  expect(leftMs).toBeLessThan(6.1 * 3_600_000);
  expect(Number(answer.headers.get('retry-after')) * 1000).toBeGreaterThan(leftMs - 60_000);
});

/** A caller whose key has used up its requests of the minute. */
let limited: Promise<TestCaller> | null = null;

async function spendMinute(bench: Bench, caller: TestCaller): Promise<TestCaller> {
  const requests = Array.from({ length: 61 }, () => send(bench, get('/usage?limit=1'), caller));
  await Promise.all(requests);
  return caller;
}

/** 429 after 60 requests in a minute. */
export const needsRate = checkEach(async (bench, request) => {
  limited ??= bench.gateway.newCaller({ credits: 10_000 }).then((each) => spendMinute(bench, each));
  const caller = await limited;
  let answer = await send(bench, request, caller);
  // The minute has turned.
  if (answer.status !== 429) {
    await spendMinute(bench, caller);
    answer = await send(bench, request, caller);
  }
  expectBody(request, answer, 429, { error: 'Rate limit exceeded. Please slow down.' });
  const seconds = Number(answer.headers.get('retry-after'));
  expect(seconds).toBeGreaterThanOrEqual(1);
  expect(seconds).toBeLessThanOrEqual(60);
});

/** Each request needs a key with the right, and a rate below the limit. */
export const needsAccess = (...requests: Request[]): Check[] =>
  [needsKey, needsRight, needsRate].map((needs) => needs(...requests));

/** The response has the rate headers and the id of the request. */
export function carriesHeaders(...requests: Request[]): Check {
  return async (bench) => {
    for (const request of requests) {
      const { headers } = await send(bench, request);
      expect(headers.get('x-ratelimit-limit'), request.path).toBe('60');
      expect(headers.get('x-ratelimit-remaining'), request.path).toBe('59');
      const reset = headers.get('x-ratelimit-reset') ?? '';
      expect(reset).toMatch(/^\d{10}$/);
      // Lines share their requests, so the response may be old.
      const answeredAtMs = Date.parse(headers.get('date') ?? '');
      expect(Math.abs(Number(reset) - answeredAtMs / 1000)).toBeLessThan(62);
      expect(headers.get('x-request-id')).toMatch(/^[\w-]{8,}$/);
    }
  };
}

/** Any number. */
export const aNumber: unknown = expect.any(Number);

/** Returns the body of a response to a job that has succeeded. */
export function done(data: object): object {
  return { success: true, data, credits: { used: aNumber, cost: aNumber, remaining: aNumber } };
}

/** A URL of a stored file. */
export const anUrl: unknown = expect.stringMatching(/^https?:\/\/.+/);
