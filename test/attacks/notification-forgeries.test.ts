/**
 * Forged, replayed and flooding provider notifications. Two checks protect a job: the MAC in the
 * URL and the provider's Ed25519 signature. Each case changes one part of a genuine notification;
 * no case may change a database row or add a history event.
 */
import { createHash, createHmac, generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { Agent, request, type IncomingMessage } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createNotificationUrls } from '../../providers/notifications.ts';
import { useGateway } from '../harness/gateway.ts';
import { startHttpServer } from '../harness/http-server.ts';

const fal = generateKeyPairSync('ed25519');
const stranger = generateKeyPairSync('ed25519');
/** Order of the Ed25519 group: added to S, it gives another spelling of the same number. */
const groupOrder = 2n ** 252n + 27_742_317_777_372_353_535_851_937_790_883_648_493n;

let jwksFetches = 0;
/** A time before the first download, of the clock that this process shares with its API. */
const startedAtMs = Date.now();
/** Counts the downloads that unknown signatures may cause: one a minute; the test may take minutes. */
const countAllowedFetches = (): number => 1 + Math.floor((Date.now() - startedAtMs) / 60_000);
const jwksServer = await startHttpServer((_request, response) => {
  jwksFetches += 1;
  response.end(JSON.stringify({ keys: [fal.publicKey.export({ format: 'jwk' })] }));
});

const gateway = useGateway({
  settled: 'last',
  env: {
    FAL_JWKS_URL: `${jwksServer.url}/jwks.json`,
    // Only a notification can change the job.
    FIRST_CHECK_MAX_MS: '600000',
  },
});
/** A job that waits for its provider. */
let jobId: string;
let path: string;
let otherPath: string;
beforeAll(async () => {
  [jobId, path] = await startWaitingJob();
  otherPath = (await startWaitingJob())[1];
});
afterEach(async () => expect(await gateway.database.audit()).toEqual([]));
afterAll(() => jwksServer.close());

async function startWaitingJob(): Promise<[string, string]> {
  // This model has the latest first poll, after nine minutes; a poll would also write rows.
  const prompt = '[[slow:900s]] [[no-webhook]] a guarded forest';
  const started = await gateway.call('/api/v1/studio/video/generate', {
    body: { model: 'kling-3.0-pro', prompt, async: true },
  });
  const id = started.body.data.jobId;
  return [id, new URL((await gateway.untilAccepted(id)).webhookUrl).pathname];
}

/** A delivery: what a stranger may change. Headers may come twice. */
interface Delivery {
  method: string;
  path: string;
  headers: [string, string][];
  body: Buffer;
}
/** A change of a genuine delivery. */
type Forge = (genuine: Delivery) => Delivery;

interface Claims {
  requestId: string;
  timestamp: string;
  body: string;
  key: KeyObject;
  /** Returns what is signed, given the lines that should be. */
  message: (lines: string[], body: string) => string | Buffer;
}

const readSeconds = (): number => Math.floor(Date.now() / 1000);
const userId = 'some-user';

/** Makes a delivery whose signature holds for what it claims, unless the claims forge it. */
function deliver(claims: Partial<Claims> = {}): Delivery {
  const { requestId = 'genuine-request', timestamp = String(readSeconds()) } = claims;
  const { key = fal.privateKey, message = (lines) => lines.join('\n') } = claims;
  const body =
    claims.body ?? JSON.stringify({ request_id: requestId, status: 'OK', payload: { images: [] } });
  const digest = createHash('sha256').update(body).digest('hex');
  const signed = Buffer.from(message([requestId, userId, timestamp, digest], body));
  return {
    method: 'POST',
    path,
    headers: [
      ['content-type', 'application/json'],
      ['x-fal-webhook-request-id', requestId],
      ['x-fal-webhook-user-id', userId],
      ['x-fal-webhook-timestamp', timestamp],
      ['x-fal-webhook-signature', sign(null, signed, key).toString('hex')],
    ],
    body: Buffer.from(body),
  };
}

/** A flood of new connections would fill the server's queue of connections, which then resets some. */
const agent = new Agent({ maxSockets: 100 });

async function send(delivery: Delivery): Promise<number> {
  const { hostname, port } = new URL(gateway.url);
  // As a flat list, so that a header can come twice.
  const headers = [
    ['host', hostname],
    ...delivery.headers,
    ['content-length', String(delivery.body.length)],
  ].flat();
  const { method, path: target } = delivery;
  const sending = request({ agent, hostname, port, method, path: target, headers });
  // A body that is rejected half way ends in a reset, sometimes after the response.
  sending.on('error', () => {}).end(delivery.body);
  const [answer] = (await once(sending, 'response')) as [IncomingMessage];
  await once(answer.resume(), 'end');
  return answer.statusCode ?? 0;
}
const sendMany = async (count: number, delivery: (index: number) => Delivery) =>
  new Set(await Promise.all(Array.from({ length: count }, (_, index) => send(delivery(index)))));

/** Replaces a header of the signature scheme; null removes it. */
function header(name: string, change: string | null | ((genuine: string) => string)): Forge {
  const full = `x-fal-webhook-${name}`;
  return (delivery) => {
    const others = delivery.headers.filter(([given]) => given !== full);
    const [, genuine = ''] = delivery.headers.find(([each]) => each === full) ?? [];
    const value = typeof change === 'function' ? change(genuine) : change;
    return { ...delivery, headers: value === null ? others : [...others, [full, value]] };
  };
}
const signature = (change: (hex: string) => string): Forge => header('signature', change);
const withHeaders =
  (...headers: [string, string][]): Forge =>
  (genuine) => ({ ...genuine, headers: [...genuine.headers, ...headers] });
const onlyHeaders =
  (...headers: [string, string][]): Forge =>
  (genuine) => ({ ...genuine, headers });
const body =
  (change: (bytes: Buffer) => string | Buffer): Forge =>
  (genuine) => ({ ...genuine, body: Buffer.from(change(genuine.body)) });
const signed =
  (message: Claims['message']): Forge =>
  () =>
    deliver({ message });
const timestamp =
  (spell: (seconds: number) => string | number): Forge =>
  () =>
    deliver({ timestamp: String(spell(readSeconds())) });
const flipBit = (hex: string, at: number): string => {
  const bytes = Buffer.from(hex, 'hex');
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  return bytes.toString('hex');
};
/** Returns the same signature with S + L for S, which only a lax verifier accepts. */
function malleate(hex: string): string {
  const bytes = Buffer.from(hex, 'hex');
  const little = Buffer.from(bytes.subarray(32).toReversed());
  const spelled = (BigInt(`0x${little.toString('hex')}`) + groupOrder)
    .toString(16)
    .padStart(64, '0');
  return hex.slice(0, 64) + Buffer.from(Buffer.from(spelled, 'hex').toReversed()).toString('hex');
}
const strangersJwk = JSON.stringify(stranger.publicKey.export({ format: 'jwk' }));

const ofSignature: Record<string, Forge> = {
  'no signature headers at all': onlyHeaders(['content-type', 'application/json']),
  'no request id': header('request-id', null),
  'no user id': header('user-id', null),
  'no timestamp': header('timestamp', null),
  'no signature': header('signature', null),
  'an empty signature': header('signature', ''),
  'a signature one digit short': signature((hex) => hex.slice(1)),
  'a signature of half its length': signature((hex) => hex.slice(64)),
  'a signature with more behind it': signature((hex) => `${hex}00`),
  'a signature in base64': signature((hex) => Buffer.from(hex, 'hex').toString('base64')),
  'a signature with a prefix': signature((hex) => `v1=${hex}`),
  'a signature of zeros': signature(() => '00'.repeat(64)),
  'the identity point for a signature': signature(() => `01${'00'.repeat(63)}`),
  'one bit of R flipped': signature((hex) => flipBit(hex, 0)),
  'one bit of S flipped': signature((hex) => flipBit(hex, 63)),
  'R and S exchanged': signature((hex) => hex.slice(64) + hex.slice(0, 64)),
  'S + L for S': signature(malleate),
  'two signatures in one header': signature((hex) => `${hex},${hex}`),
  "a stranger's key": () => deliver({ key: stranger.privateKey }),
  "a stranger's key that comes along": () =>
    withHeaders(['jwk', strangersJwk])(deliver({ key: stranger.privateKey })),
  'a hash for a signature': signature(() => createHash('sha512').update('x').digest('hex')),
  'the message hashed before it was signed': signed((lines) =>
    createHash('sha256').update(lines.join('\n')).digest(),
  ),
  'signed without the user': signed((lines) => lines.toSpliced(1, 1).join('\n')),
  'signed without separators': signed((lines) => lines.join('')),
  'only the body signed': signed((_lines, text) => text),
  'another request id': header('request-id', 'another-request'),
  'another user id': header('user-id', 'another-user'),
  'another timestamp': header('timestamp', (seconds) => String(Number(seconds) + 1)),
  'more than 300 s old': timestamp((now) => now - 302),
  'more than 300 s early': timestamp((now) => now + 302),
  'a year old': timestamp((now) => now - 31_536_000),
  'a timestamp in milliseconds': timestamp((now) => now * 1000),
  'a timestamp with a sign': timestamp((now) => `+${now}`),
  'a negative timestamp': timestamp((now) => -now),
  'a timestamp with a fraction': timestamp((now) => `${now}.0`),
  'a timestamp that is a word': timestamp(() => 'now'),
  'another body': body(() => '{"request_id":"genuine-request"}'),
  'the same JSON, spelled otherwise': body((bytes) =>
    JSON.stringify(JSON.parse(bytes.toString()), null, 1),
  ),
  'a line break behind the body': body((bytes) => `${bytes.toString()}\n`),
  'a byte-order mark before the body': body((bytes) => `\ufeff${bytes.toString()}`),
  'no body': body(() => ''),
  'a signed body that names another request': () => deliver({ body: '{"request_id":"x"}' }),
  'a signed body that names none': () => deliver({ body: '{}' }),
  'a signed body that is no JSON': () => deliver({ body: 'request_id=genuine-request' }),
  'a signed body that is an array': () => deliver({ body: '["genuine-request"]' }),
  'a signed body with an object for an id': () => deliver({ body: '{"request_id":{}}' }),
  'the signature header twice': (genuine) => withHeaders(...genuine.headers.slice(-1))(genuine),
  'the request id twice': withHeaders(['x-fal-webhook-request-id', 'x']),
  'headers of another scheme': onlyHeaders(
    ['webhook-id', 'genuine-request'],
    ['webhook-timestamp', String(readSeconds())],
    ['webhook-signature', `v1,${'a'.repeat(43)}=`],
  ),
};
const ofMethod = Object.fromEntries(
  ['GET', 'PUT', 'PATCH', 'DELETE'].map((method): [string, Forge] => [
    method,
    (genuine) => ({ ...genuine, method }),
  ]),
);
const compressed: Forge = (genuine) =>
  withHeaders(['content-encoding', 'gzip'])(body((bytes) => gzipSync(bytes))(genuine));

interface Address {
  provider: string;
  job: string;
  call: string;
  mac: string;
}
function parseAddress(hook: string): Address {
  const [, , provider = '', job = '', call = '', mac = ''] = hook.split('/');
  return { provider, job, call, mac };
}
/** Changes parts of the URL. */
const at =
  (change: (parts: Address) => Partial<Address>): Forge =>
  (genuine) => {
    const parts = parseAddress(path);
    const { provider, job, call, mac } = { ...parts, ...change(parts) };
    return { ...genuine, path: `/hooks/${provider}/${job}/${call}/${mac}` };
  };
const mac = (change: (genuine: string) => string): Forge =>
  at((parts) => ({ mac: change(parts.mac) }));
/** Replaces the MAC by one under a secret over these words. */
const signMac = (secret: () => string, separator = '\n'): Forge =>
  at((parts) => ({
    mac: createHmac('sha256', secret())
      .update([parts.provider, parts.job, '0'].join(separator))
      .digest('base64url'),
  }));
/** Returns a genuine MAC of another address of the same job. */
function makeMac(changes: { provider?: string; callIndex?: number }): string {
  const { WEBHOOK_SECRET: secret } = gateway.config;
  const urls = createNotificationUrls({ publicBaseUrl: gateway.url, secret });
  const hook = urls.urlFor({ provider: 'fal', jobId, callIndex: 0, ...changes });
  return parseAddress(new URL(hook).pathname).mac;
}
/** Replaces the last base64 character by another one for the same bytes. */
const respell = (word: string): string => {
  const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  return word.slice(0, -1) + (digits[digits.indexOf(word.at(-1) ?? '') ^ 1] ?? '');
};
const target =
  (change: (genuine: string) => string): Forge =>
  (genuine) => ({ ...genuine, path: change(genuine.path) });

/** Every delivery here is signed by the provider; only the address is not ours. */
const ofAddress: Record<string, Forge> = {
  'another job': at(() => ({ job: parseAddress(otherPath).job })),
  "another job's MAC": mac(() => parseAddress(otherPath).mac),
  'a job that does not exist': at(() => ({ job: `job_${'0'.repeat(32)}` })),
  'another call': at(() => ({ call: '1' })),
  'the call with zeros before it': at(() => ({ call: '0001' })),
  'the call in another notation': at(() => ({ call: '0x0' })),
  'a negative call': at(() => ({ call: '-0' })),
  'the call as a fraction': at(() => ({ call: '0.0' })),
  'the call in other digits': at(() => ({ call: encodeURIComponent('٠') })),
  'a huge call': at(() => ({ call: '9'.repeat(400) })),
  'another provider': at(() => ({ provider: 'elevenlabs' })),
  'an unknown provider': at(() => ({ provider: 'other' })),
  'a provider of the prototype': at(() => ({ provider: '__proto__' })),
  'the provider in capitals': at(() => ({ provider: 'FAL' })),
  'the provider and a NUL': at(() => ({ provider: 'fal%00' })),
  'the job in capitals': at(({ job }) => ({ job: job.toUpperCase() })),
  'the job and a line break': at(({ job }) => ({ job: `${job}%0a` })),
  'no MAC': mac(() => ''),
  'a short MAC': mac((word) => word.slice(0, -1)),
  'a long MAC': mac((word) => `${word}A`),
  'a padded MAC': mac((word) => `${word}=`),
  'a MAC with its first character changed': mac(
    (word) => (word.startsWith('A') ? 'B' : 'A') + word.slice(1),
  ),
  'another spelling of the same MAC': mac(respell),
  'the MAC in hexadecimal': mac((word) => Buffer.from(word, 'base64url').toString('hex')),
  'the MAC in the other case': mac((word) => word.toLowerCase()),
  'the MAC encoded twice': mac(
    (word) => `%25${Buffer.from(word.slice(0, 1)).toString('hex')}${word.slice(1)}`,
  ),
  'a MAC under an empty secret': signMac(() => ''),
  'a MAC under the admin key': signMac(() => gateway.config.ADMIN_API_KEY),
  'a MAC over the same words, joined otherwise': signMac(() => gateway.config.WEBHOOK_SECRET, ''),
  'a MAC for another provider': mac(() => makeMac({ provider: 'elevenlabs' })),
  'a genuine address of a provider without webhooks': at(() => ({
    provider: 'elevenlabs',
    mac: makeMac({ provider: 'elevenlabs' }),
  })),
  'a MAC for another call': mac(() => makeMac({ callIndex: 1 })),
  'the MAC in the query': target((hook) => hook.replace(/\/([^/]+)$/, '/?mac=$1')),
  'one more step': target((hook) => `${hook}/x`),
  'steps back': target((hook) => `/hooks/other/../${hook.slice(7)}`),
  'a doubled slash': target((hook) => hook.replace('/hooks/', '/hooks//')),
};

/** Reads every row and history event that a notification could change. */
async function readState() {
  const events = await gateway.events(jobId);
  // Notifications of unknown jobs count; those of jobs of other files do not.
  const rows = await gateway.database.query<{ of: string; row: object }>(
    `WITH own AS (SELECT id FROM job WHERE organization_id = $1)
     SELECT 'reservation' AS of, to_jsonb(r) AS row FROM reservation r WHERE organization_id = $1
     UNION ALL SELECT 'job', to_jsonb(j) FROM job j WHERE organization_id = $1
     UNION ALL SELECT 'call', to_jsonb(c) FROM provider_call c WHERE job_id IN (SELECT id FROM own)
     UNION ALL SELECT 'entry', to_jsonb(e) FROM ledger_entry e WHERE organization_id = $1
     UNION ALL SELECT 'provider_notification', to_jsonb(n) FROM provider_notification n
       WHERE job_id NOT IN (SELECT id FROM job WHERE organization_id <> $1)
     ORDER BY 1, 2`,
    [gateway.caller.organizationId],
  );
  const signals = events.filter((event) => event.workflowExecutionSignaledEventAttributes);
  return { signals: signals.length, rows };
}

/** Returns the state once it has stopped changing: an accepted notification makes the workflow look. */
async function readSettledState() {
  let last = await readState();
  await expect
    .poll(
      async () => {
        const before = last;
        last = await readState();
        return JSON.stringify(last) === JSON.stringify(before);
      },
      { interval: 400 },
    )
    .toBe(true);
  return last;
}

describe('a forged provider notification', () => {
  it('is rejected and changes nothing, whichever part is forged', async () => {
    const before = await readSettledState();
    for (const [status, forged] of [
      [401, ofSignature],
      [405, ofMethod],
      [415, { compressed }],
      [404, ofAddress],
    ] as const) {
      for (const [name, forge] of Object.entries(forged)) {
        expect([name, await send(forge(deliver()))]).toEqual([name, status]);
      }
    }
    const large = { ...deliver(), body: Buffer.alloc(11_000_000, ' ') };
    expect(await send(large).catch(() => 'cut')).toBeOneOf([413, 'cut']);
    expect(await readSettledState()).toEqual(before);
    expect(jwksFetches).toBeLessThanOrEqual(countAllowedFetches());
  });

  it('changes nothing in a flood, and does not download the keys each time', async () => {
    const before = await readState();
    const statuses = await sendMany(300, (index) =>
      deliver({ key: stranger.privateKey, requestId: `forged-${index}` }),
    );
    expect(statuses).toEqual(new Set([401]));
    expect(await readSettledState()).toEqual(before);
    expect(jwksFetches).toBeLessThanOrEqual(countAllowedFetches());
  });
});

describe('a genuine provider notification', () => {
  it('is accepted within 300 seconds, so the forged parts caused the rejections above', async () => {
    const before = await readState();
    expect(await send(deliver({ timestamp: String(readSeconds() - 285) }))).toBe(200);
    const after = await readSettledState();
    expect(after.signals).toBeGreaterThan(before.signals);
    expect(after.rows.length).toBe(before.rows.length + 1);
  });

  it('sent 200 more times is recorded as one notification, and sends its workflow nothing', async () => {
    const deliveries = async () =>
      (await gateway.database.notifications(jobId))[0]?.deliveries ?? 0;
    const before = await readState();
    const counted = await deliveries();
    const genuine = deliver();
    expect(await sendMany(200, () => genuine)).toEqual(new Set([200]));
    const after = await readSettledState();
    expect(after.signals).toBe(before.signals);
    expect(after.rows.length).toBe(before.rows.length);
    expect((await deliveries()) - counted).toBe(200);
  });

  it('that is repeated after the end of the job changes nothing', async () => {
    for (const waiting of [jobId, parseAddress(otherPath).job]) {
      await gateway.cancel(waiting);
      await gateway.untilDone(waiting);
    }
    await gateway.expectSettled();
    const before = await readSettledState();
    expect(await sendMany(5, () => deliver())).toEqual(new Set([200]));
    const after = await readSettledState();
    expect(after.signals).toBe(before.signals);
    const unchanged = ({ rows }: typeof before) =>
      rows.filter(({ of }) => of !== 'provider_notification');
    expect(unchanged(after)).toEqual(unchanged(before));
  });
});

it('a notification URL signed with the previous secret is accepted until that secret is removed', () => {
  const publicBaseUrl = 'https://gateway.example';
  const hook = { provider: 'fal', jobId: `job_${'1'.repeat(32)}`, callIndex: 0 };
  const old = createNotificationUrls({ publicBaseUrl, secret: 'old' });
  const during = createNotificationUrls({ publicBaseUrl, secret: 'new', previousSecret: 'old' });
  const after = createNotificationUrls({ publicBaseUrl, secret: 'new' });
  const { mac: word } = parseAddress(new URL(old.urlFor(hook)).pathname);
  const valid = [old, during, after].map(({ isValid }) => isValid(hook, word));
  expect(valid).toEqual([true, true, false]);
  expect(during.isValid({ ...hook, callIndex: 1 }, word)).toBe(false);
  expect(during.urlFor(hook)).toBe(after.urlFor(hook));
});
