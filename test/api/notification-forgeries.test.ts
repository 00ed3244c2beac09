/**
 * Forged, replayed and flooding provider notifications. Two checks protect a job: the MAC in the
 * URL and the provider's Ed25519 signature. Each case changes one part of a genuine notification;
 * no case may change a database row or add a history event.
 */
import { createHash, createHmac, generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { Agent, createServer, request, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createNotificationUrls } from '../../providers/notification-urls.ts';
import { startGateway, type TestGateway } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';

const fal = generateKeyPairSync('ed25519');
const stranger = generateKeyPairSync('ed25519');
const jwk = fal.publicKey.export({ format: 'jwk' });
const publicBytes = Buffer.from(jwk.x ?? '', 'base64url');
/** Of the Ed25519 group: adding it to S gives another spelling of the same number. */
const groupOrder = 2n ** 252n + 27_742_317_777_372_353_535_851_937_790_883_648_493n;

let jwksServer: Server;
let jwksFetches = 0;
let firstFetchAtMs = 0;
/** An unknown signature downloads the keys at most once a minute; the test may take minutes. */
const fetchesAllowed = (): number => 1 + Math.floor((Date.now() - firstFetchAtMs) / 60_000);
let gateway: TestGateway;
/** A job that waits for its provider. */
let jobId: string;
let path: string;
let otherPath: string;

beforeAll(async () => {
  jwksServer = createServer((_request, response) => {
    jwksFetches += 1;
    firstFetchAtMs ||= Date.now();
    // Slow enough that notifications arrive during the download of the keys.
    setTimeout(() => response.end(JSON.stringify({ keys: [jwk] })), 300);
  });
  await new Promise<void>((done) => jwksServer.listen(0, '127.0.0.1', done));
  const { port } = jwksServer.address() as AddressInfo;
  // Notifications go to an API with keys of its own.
  gateway = await startGateway({
    env: {
      FAL_JWKS_URL: `http://127.0.0.1:${port}/jwks.json`,
      // Only a notification can change the job.
      FIRST_CHECK_MAX_MS: '600000',
    },
  });
  [jobId, path] = await waitingJob();
  otherPath = (await waitingJob())[1];
});
afterEach(async () => {
  expect(await gateway.database.audit()).toEqual([]);
});
afterAll(async () => {
  await gateway.close();
  jwksServer.close();
});

async function waitingJob(): Promise<[string, string]> {
  // This model has the latest first poll, after nine minutes; a poll would also write rows.
  const started = await gateway.call('/api/v1/studio/video/generate', {
    body: {
      model: 'kling-3.0-pro',
      prompt: '[[slow:900s]] [[no-webhook]] a guarded forest',
      async: true,
    },
  });
  const id = started.body.data.jobId;
  const submit = await until(async () => (await gateway.sandbox.submits({ jobId: id }))[0]);
  return [id, new URL(submit.webhookUrl).pathname];
}

/** A delivery: what a stranger may change. Headers may come twice. */
interface Delivery {
  method: string;
  path: string;
  headers: [string, string][];
  body: Buffer;
}

interface Claims {
  requestId: string;
  userId: string;
  timestamp: string;
  body: string;
  key: KeyObject;
  /** The signed text. */
  message: (claims: Claims) => Buffer;
}

const nowSeconds = (): number => Math.floor(Date.now() / 1000);
const sha256 = (bytes: string | Buffer): string => createHash('sha256').update(bytes).digest('hex');
const lines = (claims: Claims): string[] => [
  claims.requestId,
  claims.userId,
  claims.timestamp,
  sha256(claims.body),
];

function claimsOf(changes: Partial<Claims> = {}): Claims {
  const requestId = changes.requestId ?? 'genuine-request';
  return {
    requestId,
    userId: 'some-user',
    timestamp: String(nowSeconds()),
    body: JSON.stringify({ request_id: requestId, status: 'OK', payload: { images: [] } }),
    key: fal.privateKey,
    message: (claims) => Buffer.from(lines(claims).join('\n')),
    ...changes,
  };
}

/** A delivery with a signature that holds for what it claims, unless the claims forge it. */
function deliver(changes: Partial<Claims> = {}): Delivery {
  const claims = claimsOf(changes);
  return {
    method: 'POST',
    path,
    headers: [
      ['content-type', 'application/json'],
      ['x-fal-webhook-request-id', claims.requestId],
      ['x-fal-webhook-user-id', claims.userId],
      ['x-fal-webhook-timestamp', claims.timestamp],
      ['x-fal-webhook-signature', sign(null, claims.message(claims), claims.key).toString('hex')],
    ],
    body: Buffer.from(claims.body),
  };
}

/** A thousand new connections at once would fill the server's queue of connections, which then resets some. */
const agent = new Agent({ maxSockets: 100 });

async function send(delivery: Delivery): Promise<number> {
  const { hostname, port } = new URL(gateway.url);
  return new Promise((done, fail) => {
    const sending = request(
      {
        agent,
        hostname,
        port,
        method: delivery.method,
        path: delivery.path,
        // As a flat list, so that a header can come twice.
        headers: [
          ['host', hostname],
          ...delivery.headers,
          ['content-length', String(delivery.body.length)],
        ].flat(),
      },
      (answer: IncomingMessage) => {
        answer.resume().on('end', () => done(answer.statusCode ?? 0));
      },
    );
    // A body that is refused half way ends in a reset; the answer has come by then or never.
    sending.on('error', fail);
    sending.end(delivery.body);
  });
}

const header = (delivery: Delivery, name: string): string =>
  delivery.headers.find(([given]) => given === `x-fal-webhook-${name}`)?.[1] ?? '';
/** Replaces a header; null removes it. */
function withHeader(delivery: Delivery, name: string, value: string | null): Delivery {
  const full = `x-fal-webhook-${name}`;
  const headers = delivery.headers.filter(([given]) => given !== full);
  return { ...delivery, headers: value === null ? headers : [...headers, [full, value]] };
}
const editSignature = (change: (hex: string) => string): (() => Delivery) => {
  return () => {
    const genuine = deliver();
    return withHeader(genuine, 'signature', change(header(genuine, 'signature')));
  };
};
const flip = (hex: string, at: number): string => {
  const bytes = Buffer.from(hex, 'hex');
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  return bytes.toString('hex');
};
/** The same signature with S + L for S: only a lax verifier accepts it. */
function malleated(hex: string): string {
  const bytes = Buffer.from(hex, 'hex');
  const little = Buffer.from(bytes.subarray(32).toReversed());
  const spelled = (BigInt(`0x${little.toString('hex')}`) + groupOrder)
    .toString(16)
    .padStart(64, '0');
  return Buffer.concat([bytes.subarray(0, 32), Buffer.from(spelled, 'hex').toReversed()]).toString(
    'hex',
  );
}
const hmac = (algorithm: string, key: Buffer | string) => (claims: Claims) =>
  createHmac(algorithm, key).update(claimsOf(claims).message(claims)).digest('hex');

const ofSignature: [string, () => Delivery, number?][] = [
  [
    'no signature headers at all',
    () => ({ ...deliver(), headers: [['content-type', 'application/json']] }),
  ],
  ['no request id', () => withHeader(deliver(), 'request-id', null)],
  ['no user id', () => withHeader(deliver(), 'user-id', null)],
  ['no timestamp', () => withHeader(deliver(), 'timestamp', null)],
  ['no signature', () => withHeader(deliver(), 'signature', null)],
  ['an empty signature', () => withHeader(deliver(), 'signature', '')],
  ['a signature one digit short', editSignature((hex) => hex.slice(1))],
  ['a signature of half its length', editSignature((hex) => hex.slice(64))],
  ['a signature with more behind it', editSignature((hex) => `${hex}00`)],
  ['a signature in base64', editSignature((hex) => Buffer.from(hex, 'hex').toString('base64'))],
  ['a signature with a prefix', editSignature((hex) => `v1=${hex}`)],
  ['a signature of zeros', editSignature(() => '00'.repeat(64))],
  ['the identity point for a signature', editSignature(() => `01${'00'.repeat(63)}`)],
  ['one bit of R flipped', editSignature((hex) => flip(hex, 0))],
  ['one bit of S flipped', editSignature((hex) => flip(hex, 63))],
  ['R and S exchanged', editSignature((hex) => hex.slice(64) + hex.slice(0, 64))],
  ['S + L for S', editSignature(malleated)],
  ['two signatures in one header', editSignature((hex) => `${hex},${hex}`)],
  ["a stranger's key", () => deliver({ key: stranger.privateKey })],
  [
    "a stranger's key that comes along",
    () => {
      const delivery = deliver({ key: stranger.privateKey });
      const theirs = JSON.stringify(stranger.publicKey.export({ format: 'jwk' }));
      return { ...delivery, headers: [...delivery.headers, ['jwk', theirs]] };
    },
  ],
  [
    'an HMAC-SHA512 under the public key',
    () => withHeader(deliver(), 'signature', hmac('sha512', publicBytes)(claimsOf())),
  ],
  [
    'an HMAC-SHA512 under an empty key',
    () => withHeader(deliver(), 'signature', hmac('sha512', '')(claimsOf())),
  ],
  [
    'a hash for a signature',
    () => withHeader(deliver(), 'signature', createHash('sha512').update('x').digest('hex')),
  ],
  [
    'the message hashed before it was signed',
    () =>
      deliver({
        message: (claims) => createHash('sha256').update(lines(claims).join('\n')).digest(),
      }),
  ],
  [
    'signed without the user',
    () => deliver({ message: (claims) => Buffer.from(lines(claims).toSpliced(1, 1).join('\n')) }),
  ],
  [
    'signed without separators',
    () => deliver({ message: (claims) => Buffer.from(lines(claims).join('')) }),
  ],
  ['only the body signed', () => deliver({ message: (claims) => Buffer.from(claims.body) })],
  ['another request id', () => withHeader(deliver(), 'request-id', 'another-request')],
  ['another user id', () => withHeader(deliver(), 'user-id', 'another-user')],
  ['another timestamp', () => withHeader(deliver(), 'timestamp', String(nowSeconds() + 1))],
  ['301 s old', () => deliver({ timestamp: String(nowSeconds() - 302) })],
  ['301 s early', () => deliver({ timestamp: String(nowSeconds() + 302) })],
  ['a year old', () => deliver({ timestamp: String(nowSeconds() - 31_536_000) })],
  ['a timestamp in milliseconds', () => deliver({ timestamp: String(Date.now()) })],
  ['a timestamp with a sign', () => deliver({ timestamp: `+${nowSeconds()}` })],
  ['a negative timestamp', () => deliver({ timestamp: `-${nowSeconds()}` })],
  ['a timestamp with a fraction', () => deliver({ timestamp: `${nowSeconds()}.0` })],
  ['a timestamp that is a word', () => deliver({ timestamp: 'now' })],
  ['another body', () => ({ ...deliver(), body: Buffer.from('{"request_id":"genuine-request"}') })],
  [
    'the same JSON, spelled otherwise',
    () => {
      const genuine = deliver();
      const respelled = JSON.stringify(JSON.parse(genuine.body.toString()), null, 1);
      return { ...genuine, body: Buffer.from(respelled) };
    },
  ],
  [
    'a line break behind the body',
    () => {
      const genuine = deliver();
      return { ...genuine, body: Buffer.concat([genuine.body, Buffer.from('\n')]) };
    },
  ],
  [
    'a byte-order mark before the body',
    () => {
      const genuine = deliver();
      return { ...genuine, body: Buffer.concat([Buffer.from('\ufeff'), genuine.body]) };
    },
  ],
  ['no body', () => ({ ...deliver(), body: Buffer.alloc(0) })],
  ['a signed body that names another request', () => deliver({ body: '{"request_id":"x"}' })],
  ['a signed body that names none', () => deliver({ body: '{}' })],
  ['a signed body that is no JSON', () => deliver({ body: 'request_id=genuine-request' })],
  ['a signed body that is an array', () => deliver({ body: '["genuine-request"]' })],
  ['a signed body with an object for an id', () => deliver({ body: '{"request_id":{}}' })],
  [
    'the signature header twice',
    () => {
      const genuine = deliver();
      const again = genuine.headers.find(([name]) => name.endsWith('signature'));
      return { ...genuine, headers: [...genuine.headers, again ?? ['', '']] };
    },
  ],
  [
    'the request id twice',
    () => {
      const genuine = deliver();
      return { ...genuine, headers: [...genuine.headers, ['x-fal-webhook-request-id', 'x']] };
    },
  ],
  [
    'headers of another scheme',
    () => ({
      ...deliver(),
      headers: [
        ['webhook-id', 'genuine-request'],
        ['webhook-timestamp', String(nowSeconds())],
        ['webhook-signature', `v1,${'a'.repeat(43)}=`],
      ],
    }),
  ],
  [
    'compressed',
    () => {
      const genuine = deliver();
      const headers: Delivery['headers'] = [...genuine.headers, ['content-encoding', 'gzip']];
      return { ...genuine, headers, body: gzipSync(genuine.body) };
    },
    415,
  ],
  ['GET', () => ({ ...deliver(), method: 'GET' }), 405],
  ['PUT', () => ({ ...deliver(), method: 'PUT' }), 405],
  ['PATCH', () => ({ ...deliver(), method: 'PATCH' }), 405],
  ['DELETE', () => ({ ...deliver(), method: 'DELETE' }), 405],
];

/** Address parts of the waiting job: provider, job, call, MAC. */
function address(): { provider: string; job: string; call: string; mac: string } {
  const [, , provider = '', job = '', call = '', word = ''] = path.split('/');
  return { provider, job, call, mac: word };
}
type Address = ReturnType<typeof address>;
const at = (change: (parts: Address) => Partial<Address>): (() => Delivery) => {
  return () => {
    const parts = { ...address(), ...change(address()) };
    return {
      ...deliver(),
      path: `/hooks/${parts.provider}/${parts.job}/${parts.call}/${parts.mac}`,
    };
  };
};
const macUnder = (secret: string, words: string): string =>
  createHmac('sha256', secret).update(words).digest('base64url');
const genuineMac = (parts: { provider: string; jobId: string; callIndex: number }): string =>
  createNotificationUrls({
    publicBaseUrl: gateway.url,
    secret: gateway.config.WEBHOOK_SECRET,
  })
    .urlFor(parts)
    .split('/')
    .at(-1) ?? '';
const otherAddress = (): string[] => otherPath.split('/');
/** Replaces the last base64 character by another one for the same bytes. */
const aliased = (word: string): string => {
  const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const last = digits.indexOf(word.at(-1) ?? '');
  return word.slice(0, -1) + (digits[last ^ 1] ?? '');
};

/** Every delivery here is signed by the provider; only the address is not ours. */
const ofAddress: [string, () => Delivery][] = [
  ['another job', at(() => ({ job: otherAddress()[3] ?? '' }))],
  ["another job's MAC", at(() => ({ mac: otherAddress()[5] ?? '' }))],
  ['a job that does not exist', at(() => ({ job: `job_${'0'.repeat(32)}` }))],
  ['another call', at(() => ({ call: '1' }))],
  ['the call with zeros before it', at(() => ({ call: '0001' }))],
  ['the call in another notation', at(() => ({ call: '0x0' }))],
  ['a negative call', at(() => ({ call: '-0' }))],
  ['the call as a fraction', at(() => ({ call: '0.0' }))],
  ['the call in other digits', at(() => ({ call: encodeURIComponent('٠') }))],
  ['a huge call', at(() => ({ call: '9'.repeat(400) }))],
  ['another provider', at(() => ({ provider: 'elevenlabs' }))],
  ['an unknown provider', at(() => ({ provider: 'other' }))],
  ['a provider of the prototype', at(() => ({ provider: '__proto__' }))],
  ['the provider in capitals', at(() => ({ provider: 'FAL' }))],
  ['the provider and a NUL', at(() => ({ provider: 'fal%00' }))],
  ['the job in capitals', at(({ job }) => ({ job: job.toUpperCase() }))],
  ['the job and a line break', at(({ job }) => ({ job: `${job}%0a` }))],
  ['no MAC', at(() => ({ mac: '' }))],
  ['a short MAC', at((parts) => ({ mac: parts.mac.slice(0, -1) }))],
  ['a long MAC', at((parts) => ({ mac: `${parts.mac}A` }))],
  ['a padded MAC', at((parts) => ({ mac: `${parts.mac}=` }))],
  [
    'a MAC with its first character changed',
    at((parts) => ({
      mac: (parts.mac.startsWith('A') ? 'B' : 'A') + parts.mac.slice(1),
    })),
  ],
  ['another spelling of the same MAC', at((parts) => ({ mac: aliased(parts.mac) }))],
  [
    'the MAC in hexadecimal',
    at((parts) => ({
      mac: Buffer.from(parts.mac, 'base64url').toString('hex'),
    })),
  ],
  ['the MAC in the other case', at((parts) => ({ mac: parts.mac.toLowerCase() }))],
  [
    'the MAC encoded twice',
    at((parts) => ({
      mac: `%25${Buffer.from(parts.mac.slice(0, 1)).toString('hex')}${parts.mac.slice(1)}`,
    })),
  ],
  [
    'a MAC under an empty secret',
    at(({ provider, job }) => ({
      mac: macUnder('', `${provider}\n${job}\n0`),
    })),
  ],
  [
    'a MAC under the admin key',
    at(({ provider, job }) => ({
      mac: macUnder(gateway.config.ADMIN_API_KEY, `${provider}\n${job}\n0`),
    })),
  ],
  [
    'a MAC over the same words, joined otherwise',
    at(({ provider, job }) => ({
      mac: macUnder(gateway.config.WEBHOOK_SECRET, `${provider}${job}0`),
    })),
  ],
  [
    'a MAC for another provider',
    at(({ job }) => ({
      mac: genuineMac({ provider: 'elevenlabs', jobId: job, callIndex: 0 }),
    })),
  ],
  [
    'a genuine address of a provider without webhooks',
    at(({ job }) => ({
      provider: 'elevenlabs',
      mac: genuineMac({ provider: 'elevenlabs', jobId: job, callIndex: 0 }),
    })),
  ],
  [
    'a MAC for another call',
    at(({ provider, job }) => ({
      mac: genuineMac({ provider, jobId: job, callIndex: 1 }),
    })),
  ],
  [
    'the MAC in the query',
    () => ({ ...deliver(), path: `${path.replace(/\/[^/]+$/, '')}/?mac=${address().mac}` }),
  ],
  ['one more step', () => ({ ...deliver(), path: `${path}/x` })],
  ['steps back', () => ({ ...deliver(), path: `/hooks/other/../${path.slice(7)}` })],
  ['a doubled slash', () => ({ ...deliver(), path: path.replace('/hooks/', '/hooks//') })],
];

interface Standing {
  /** Of the workflow, those that come from outside. */
  signals: number;
  rows: Record<string, unknown>[];
}

/** Reads every row and history event that a notification could change. */
async function standing(): Promise<Standing> {
  const { query } = gateway.database;
  const history = await gateway.api.client.workflow.getHandle(jobId).fetchHistory();
  const rows = await query<Record<string, unknown>>(
    `SELECT 'reservation' AS of, to_jsonb(r) AS row FROM reservation r
     UNION ALL SELECT 'job', to_jsonb(j) FROM job j
     UNION ALL SELECT 'call', to_jsonb(c) FROM provider_call c
     UNION ALL SELECT 'entry', to_jsonb(e) FROM ledger_entry e
     UNION ALL SELECT 'provider_notification', to_jsonb(n) FROM provider_notification n ORDER BY 1, 2`,
  );
  const signals = history.events?.filter((event) => event.workflowExecutionSignaledEventAttributes);
  return { signals: signals?.length ?? 0, rows };
}

/** Unchanged reads before the state counts as final: a signal follows its response shortly after. */
const quietLooksMin = 3;

/** Returns the state once it stops changing. */
async function settledStanding(): Promise<Standing> {
  let last = await standing();
  let quietLooks = 0;
  await expect
    .poll(
      async () => {
        const before = last;
        last = await standing();
        quietLooks = last.signals === before.signals ? quietLooks + 1 : 0;
        return quietLooks;
      },
      { interval: 400 },
    )
    .toBeGreaterThanOrEqual(quietLooksMin);
  return last;
}

describe('the first provider notifications', () => {
  it('share one download of the signing keys when they arrive together', async () => {
    const genuine = Array.from({ length: 5 }, () => ({ ...deliver(), path: otherPath }));
    const forged = Array.from({ length: 5 }, () => ({
      ...deliver({ key: stranger.privateKey }),
      path: otherPath,
    }));
    const statuses = await Promise.all([...forged, ...genuine].map(send));
    expect(statuses).toEqual([...forged.map(() => 401), ...genuine.map(() => 200)]);
    expect(jwksFetches).toBe(1);
  });
});

describe('a forged provider notification', () => {
  it('is tested in at least 24 ways for each check', () => {
    expect(ofSignature.length).toBeGreaterThanOrEqual(24);
    expect(ofAddress.length).toBeGreaterThanOrEqual(24);
  });

  it('is rejected and changes nothing, whichever part is forged', async () => {
    const before = await settledStanding();
    const expected: Record<string, number> = {};
    const statuses: Record<string, number> = {};
    for (const [what, forge, status = 401] of ofSignature) {
      expected[what] = status;
      statuses[what] = await send(forge());
    }
    for (const [what, forge] of ofAddress) {
      expected[what] = 404;
      statuses[what] = await send(forge());
    }
    expect(statuses).toEqual(expected);
    const large = { ...deliver(), body: Buffer.alloc(11_000_000, ' ') };
    expect(await send(large).catch(() => 'cut')).toBeOneOf([413, 'cut']);
    expect(await settledStanding()).toEqual(before);
    expect(jwksFetches).toBeLessThanOrEqual(fetchesAllowed());
  });

  it('changes nothing in a flood of 1,000, and does not download the keys each time', async () => {
    const before = await settledStanding();
    const forged = Array.from({ length: 1000 }, (_, index) =>
      deliver({ key: stranger.privateKey, requestId: `forged-${index}` }),
    );
    const statuses = await Promise.all(forged.map(send));
    expect(new Set(statuses)).toEqual(new Set([401]));
    expect(await settledStanding()).toEqual(before);
    expect(jwksFetches).toBeLessThanOrEqual(fetchesAllowed());
  });
});

describe('a genuine provider notification', () => {
  it('is accepted, so the forged parts caused the rejections above', async () => {
    const before = await settledStanding();
    expect(await send(deliver())).toBe(200);
    const after = await settledStanding();
    expect(after.signals).toBeGreaterThan(before.signals);
    expect(after.rows.length).toBe(before.rows.length + 1);
  });

  it('sent a thousand more times is recorded as one notification, and sends its workflow nothing', async () => {
    const deliveries = async () => {
      const [row] = await gateway.database.query<{ deliveries: number }>(
        'SELECT deliveries FROM provider_notification WHERE job_id = $1',
        [jobId],
      );
      return row?.deliveries ?? 0;
    };
    const before = await settledStanding();
    const counted = await deliveries();
    const genuine = deliver();
    const statuses = await Promise.all(Array.from({ length: 1000 }, () => send(genuine)));
    expect(new Set(statuses)).toEqual(new Set([200]));
    const after = await settledStanding();
    expect(after.signals).toBe(before.signals);
    expect(after.rows.length).toBe(before.rows.length);
    expect((await deliveries()) - counted).toBe(1000);
  });

  it('that was captured is rejected after its time limit', async () => {
    const captured = deliver({ timestamp: String(nowSeconds() - 297) });
    expect(await send(captured)).toBe(200);
    await expect.poll(() => send(captured), { interval: 300 }).toBe(401);
  });

  it('that is repeated after the end of the job changes nothing', async () => {
    for (const waiting of [jobId, otherPath.split('/')[3] ?? '']) {
      await gateway.call(`/api/v1/studio/jobs/${waiting}/cancel`, { method: 'POST' });
      await gateway.untilDone(waiting);
    }
    await gateway.expectSettled();
    const before = await settledStanding();
    const statuses = await Promise.all(Array.from({ length: 100 }, () => send(deliver())));
    expect(new Set(statuses)).toEqual(new Set([200]));
    const after = await settledStanding();
    expect(after.signals).toBe(before.signals);
    expect(after.rows.filter(({ of }) => of !== 'provider_notification')).toEqual(
      before.rows.filter(({ of }) => of !== 'provider_notification'),
    );
  });
});

describe('a notification URL', () => {
  const publicBaseUrl = 'https://gateway.example';
  const call = { provider: 'fal', jobId: `job_${'1'.repeat(32)}`, callIndex: 0 };
  const macOf = (url: string): string => url.split('/').at(-1) ?? '';
  const old = createNotificationUrls({ publicBaseUrl, secret: 'old' });

  it('signed with the previous secret is accepted until that secret is removed', () => {
    const during = createNotificationUrls({ publicBaseUrl, secret: 'new', previousSecret: 'old' });
    const after = createNotificationUrls({ publicBaseUrl, secret: 'new' });
    const mac = macOf(old.urlFor(call));
    expect([old, during, after].map(({ isValid }) => isValid(call, mac))).toEqual([
      true,
      true,
      false,
    ]);
    expect(during.isValid({ ...call, callIndex: 1 }, mac)).toBe(false);
    expect(during.urlFor(call)).toBe(after.urlFor(call));
  });
});
