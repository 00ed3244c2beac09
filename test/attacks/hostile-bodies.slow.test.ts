/**
 * Malicious bodies for every POST endpoint: each gets a documented 4xx response in time. None
 * reaches the ledger, pollutes a prototype, or causes a 5xx.
 */
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Endpoint } from '../../api/endpoints/endpoint.ts';
import { endpoints } from '../../api/endpoints/index.ts';
import { capabilities } from '../../studio/capabilities/capability-registry.ts';
import {
  callerEndpoints,
  openEndpoints,
  operatorEndpoints,
  protocolEndpoints,
} from '../harness/endpoints.ts';
import { useGateway } from '../harness/gateway.ts';

const gateway = useGateway({ settled: 'last' });
/** Key of a caller without credits, so that a body accepted by mistake costs nothing. */
let poorKey: string;
let rowsBefore: object[];
beforeAll(async () => {
  ({ key: poorKey } = await gateway.newCaller({ credits: 0 }));
  rowsBefore = await countRows();
});

/** Returns the numbers of rows that an accepted body would add to. */
const countRows = () =>
  gateway.database.query(
    `SELECT (SELECT count(*) FROM reservation), (SELECT count(*) FROM idempotency_claim) AS claims,
       (SELECT count(*) FROM ledger_entry WHERE kind <> 'grant') AS entries`,
  );

const word = (size: number): string => 'x'.repeat(size);
const nest = (depth: number, open: string, close: string): string =>
  open.repeat(depth) + close.repeat(depth);
/** Returns an object with one field, as JSON. */
const field = (json: string, name = 'prompt'): string => `{"${name}":${json}}`;
const encodePrompt = (bytes: number[]): Buffer =>
  Buffer.concat([Buffer.from('{"prompt":"'), Buffer.from(bytes), Buffer.from('"}')]);

/** Bodies that every endpoint rejects: not a JSON object, or not storable. */
const invalidBodies: [string, string | Buffer][] = [
  ['nothing', ''],
  ['half an object', '{'],
  ['no value', '{"prompt":}'],
  ['a trailing comma', '{"prompt":"a",}'],
  ['two objects', '{}{}'],
  ['a comment', '{/* a */}'],
  ['single quotes', "{'prompt':'a'}"],
  ['NaN', field('NaN')],
  ['a hexadecimal number', field('0x10')],
  ['a bare point', field('.5')],
  ['an array', '[]'],
  ['a string', '"prompt"'],
  ['null', 'null'],
  ['depth 33', field(nest(33, '[', ']'))],
  ['depth 1,000', field(nest(1000, '[', ']'))],
  ['depth 10,000', nest(10_000, '[', ']')],
  ['depth 100,000', nest(100_000, '[', ']')],
  ['depth 100,000, never closed', '['.repeat(100_000)],
  ['depth 200,000, objects never closed', '{"a":'.repeat(200_000)],
  ['depth behind a string with brackets', `{"a":"${word(10)}[[[\\"","b":${nest(500, '[', ']')}}`],
  ['a raw NUL in a string', '{"prompt":"a\0b"}'],
  ['an escaped NUL', field('"a tall tree\\u0000"')],
  ['an escaped NUL in a name', '{"a\\u0000b":1}'],
  ['an escaped NUL, deep', '{"a":{"b":["\\u0000"]}}'],
  ['a lone high surrogate', field('"a tall tree \\ud800"')],
  ['a lone low surrogate', field('"a tall tree \\udc00"')],
  ['a lone surrogate in a name', '{"\\ud800":1}'],
  ['a lone surrogate behind a backslash', field('"a tall tree \\\\\\ud800"')],
  ['a raw line break in a string', '{"prompt":"a\nb"}'],
  ['an unknown escape', field('"\\x41"')],
  ['a string that never ends', '{"prompt":"a'],
  ['UTF-16 LE', Buffer.from('\ufeff{"prompt":"a"}', 'utf16le')],
  ['UTF-32', Buffer.from([0x7b, 0, 0, 0, 0x7d, 0, 0, 0])],
  ['Latin-1', Buffer.from('{"prompt":"é"}', 'latin1')],
  ['an overlong slash', encodePrompt([0xc0, 0xaf])],
  ['a surrogate in UTF-8', encodePrompt([0xed, 0xa0, 0x80])],
  ['a byte that is never UTF-8', Buffer.from([0x7b, 0xff, 0x7d])],
  ['a cut UTF-8 character', encodePrompt([0xe2, 0x82])],
  ['beyond Unicode', encodePrompt([0xf4, 0x90, 0x80, 0x80])],
  ['gzip', gzipSync('{"prompt":"a"}')],
  ['XML', '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'],
  ['zeros', Buffer.alloc(4096)],
  ['random bytes', Buffer.from(Array.from({ length: 4096 }, (_, at) => (at * 7919) % 256))],
];

/** JSON objects that no schema accepts. */
const invalidObjects: [string, string][] = [
  ['__proto__', '{"__proto__":{"polluted":true}}'],
  ['__proto__, deep', '{"a":{"__proto__":{"polluted":true}}}'],
  ['__proto__, escaped', '{"\\u005f\\u005fproto\\u005f\\u005f":{"polluted":true}}'],
  ['__proto__ null', '{"__proto__":null}'],
  ['constructor.prototype', '{"constructor":{"prototype":{"polluted":true}}}'],
  ['prototype', '{"prototype":{"polluted":true}}'],
  ['toString', '{"toString":1,"valueOf":1,"hasOwnProperty":1}'],
  ['length', '{"length":4294967295}'],
  ['1e400', field('1e400')],
  ['1e-400', field('1e-400')],
  ['2^53 + 1', field('9007199254740993')],
  ['a number of 10,000 digits', field('9'.repeat(10_000))],
  ['duplicate names', '{"prompt":"a","prompt":{"a":1}}'],
  ['100,000 names', `{${Array.from({ length: 50_000 }, (_, at) => `"k${at}":0`).join()}}`],
  ['an empty name', '{"":""}'],
  ['a name of 500 KB', `{"${word(500_000)}":1}`],
  ['an array of 300,000', field(`[${'0,'.repeat(299_999)}0]`)],
  ['a string of 900 KB', `{"zz":"${word(900_000)}"}`],
  ['900 KB of escapes', `{"zz":"${'\\u0041'.repeat(150_000)}"}`],
  ['900 KB of spaces', `{"zz":1${' '.repeat(900_000)}}`],
  ['an object for a text', field('{"$gt":""}')],
  ['an array for a text', field('["a"]')],
  ['a number for a text', field('1')],
  ['null for a text', field('null')],
  ['SQL in a name', `{"prompt'; DROP TABLE account; --":1}`],
  ['a byte-order mark before it', '\ufeff{"zz":1}'],
  ['a zero-width name', '{"prompt\\u200b":"a"}'],
  ['api_base', '{"api_base":"http://127.0.0.1:1/"}'],
  ['a regular expression', field(`["(a+)+$","${'a'.repeat(5000)}!"]`)],
  ['depth 31', field(nest(31, '[', ']'))],
];

/** Bodies beyond the size limit. */
const tooLarge = [field(`"${word(21_000_000)}"`), '['.repeat(21_000_000)];

/** Returns the schema of an endpoint’s JSON body. */
const findSchema = ({ request }: Endpoint) =>
  request.body ?? request.content?.['application/json']?.schema;
const schemas = endpoints.flatMap((endpoint) => {
  const schema = findSchema(endpoint);
  const { example = capabilities.find(({ path }) => endpoint.path.endsWith(path))?.example } =
    endpoint.request;
  return schema ? [{ name: `${endpoint.method} ${endpoint.path}`, schema, example }] : [];
});
/** Endpoints of other makers’ protocols, which ignore unknown fields as those makers do. */
const lenient = /\/(batches|completions|embeddings|messages|responses|images|speech|videos)/;

/** Requests with a JSON body: every endpoint at a path with a valid form. */
const requests = [...callerEndpoints, ...operatorEndpoints, ...protocolEndpoints, ...openEndpoints]
  .filter(findSchema)
  .map(({ method, requestPath }): [string, string] => [
    method,
    requestPath.replace('/codec/direction', '/codec/decode'),
  ]);

/** JSON text of fields that every endpoint must reject. */
const forbiddenFields = [
  '"__proto__":{"polluted":true}',
  '"__proto__":{"credits":1000000}',
  '"__proto__":null',
  '"\\u005f_proto__":{"polluted":true}',
  '"constructor":{"prototype":{"polluted":true}}',
  '"prototype":{"polluted":true}',
  '"toString":"x"',
  '"hasOwnProperty":"x"',
  '"toJSON":"x"',
  '"then":"x"',
];

const imagePath = '/api/v1/studio/image/generate';
const paths = [imagePath, '/api/v1/chat', '/api/v1/api-keys'];
const table = [...invalidBodies, ...invalidObjects];
const large = table.filter(([, body]) => body.length > 90_000);

interface RequestOptions {
  method?: string;
  headers?: Record<string, string>;
  body: string | Buffer;
}

async function readStatus(path: string, { method = 'POST', headers, body }: RequestOptions) {
  const key = path.startsWith('/api/admin') ? gateway.config.ADMIN_API_KEY : poorKey;
  const answer = await fetch(gateway.url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : new Uint8Array(body),
  });
  await answer.text();
  return answer.status;
}

const expectUnpolluted = () => expect(({} as { polluted?: boolean }).polluted).toBeUndefined();

describe('hostile bodies', () => {
  it('are more than 70 cases for more than 60 endpoints', () => {
    expect(table.length + tooLarge.length).toBeGreaterThan(70);
    expect(schemas.length).toBeGreaterThan(60);
  });

  it.each([imagePath, '/api/v1/chat/completions', '/api/admin/v1/temporal/codec/decode'])(
    'are all rejected by POST %s, each with at most 400 ms of CPU time',
    async (path) => {
      const failures: unknown[] = [];
      for (const [name, body] of table) {
        // Only large bodies take long; the CPU time of this process does not depend on other load.
        const before = process.cpuUsage();
        const status = await readStatus(path, { body });
        const { user, system } = process.cpuUsage(before);
        const cpuMs = (user + system) / 1000;
        const isSlow = body.length > 90_000 && cpuMs > 400;
        if (status !== 400 || isSlow) failures.push({ name, status, cpuMs });
      }
      expect(large.length).toBeGreaterThan(8);
      expect(failures).toEqual([]);
      expectUnpolluted();
    },
  );

  it.each(requests)(
    'are rejected by %s %s, which reads bodies as the others do',
    async (method, path) => {
      for (const body of ['{', field('"a\\u0000"'), '{"__proto__":{"polluted":true}}']) {
        expect([body, await readStatus(path, { method, body })]).toEqual([body, 400]);
      }
      expect(
        await readStatus(path, { method, body: '{}', headers: { 'content-type': 'text/plain' } }),
      ).toBe(415);
      expectUnpolluted();
    },
  );

  it.each(schemas)('do not fit the schema of $name', ({ schema }) => {
    const accepted = invalidObjects.filter(
      ([, body]) => body.length < 90_000 && schema.safeParse(JSON.parse(body.trim())).success,
    );
    expect(accepted).toEqual([]);
    expectUnpolluted();
  });

  it.each(schemas.filter(({ name, example }) => example && !lenient.test(name)))(
    'do not fit the schema of $name with one field more than its example',
    ({ schema, example }) => {
      const json = JSON.stringify(example).slice(1, -1);
      const fits = (...parts: string[]) =>
        schema.safeParse(JSON.parse(`{${parts.filter(Boolean).join()}}`)).success;
      // Without the added field the body is accepted, so the field causes the rejection.
      expect(fits(json)).toBe(true);
      expect(forbiddenFields.filter((text) => fits(json, text) || fits(text, json))).toEqual([]);
      expectUnpolluted();
    },
  );

  it('beyond the size limit are not read to their end', async () => {
    for (const body of tooLarge) {
      for (const path of paths)
        expect(await readStatus(path, { body }).catch(() => 'cut')).toBeOneOf([413, 'cut']);
    }
  });

  it('with another type, compressed or with a wrong label are rejected', async () => {
    // 200 MB in ten parts, of which gzip allows any number.
    const bomb = Buffer.concat(Array(10).fill(gzipSync(Buffer.alloc(20_000_000, ' '))));
    const before = process.memoryUsage().rss;
    for (const [headers, body] of [
      [{ 'content-encoding': 'gzip' }, bomb],
      [{ 'content-encoding': 'br' }, bomb],
      [{ 'content-encoding': 'gzip, gzip' }, bomb],
      [{ 'content-type': 'application/x-www-form-urlencoded' }, 'prompt=a'],
      [{ 'content-type': 'application/xml' }, '<a/>'],
      [{ 'content-type': 'json' }, '{}'],
      [{ 'content-type': 'text/html; application/json' }, '{}'],
    ] as const) {
      for (const path of paths)
        expect(await readStatus(path, { headers, body })).toBeOneOf([400, 415]);
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(150 * 1024 * 1024);
  });

  it('leave no reservation, no ledger entry and no idempotency claim', async () => {
    expect(await countRows()).toEqual(rowsBefore);
    await gateway.expectSettled();
  });
});
