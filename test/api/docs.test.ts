import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { toOpenapiPath } from '../../api/endpoints/description.ts';
import { capabilities } from '../../studio/capabilities/capability-registry.ts';
import { useGateway } from '../harness/gateway.ts';
import {
  callerEndpoints,
  openEndpoints,
  operatorEndpoints,
  type RequestedEndpoint,
} from '../harness/endpoints.ts';

const gateway = useGateway({ settled: 'last' });

const text = async (path: string): Promise<string> => (await fetch(gateway.url + path)).text();

interface Document {
  openapi: string;
  info: { version: string };
  paths: Record<
    string,
    Record<string, { operationId: string; responses: Record<string, unknown> }>
  >;
}

const readDocument = async () => JSON.parse(await text('/api/v1/openapi.json')) as Document;

/** Expects every operation exactly once. */
function expectEvery(document: Document, described: readonly RequestedEndpoint[]): void {
  const found = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId }]) => [method, path, operationId]),
  );
  expect(found.toSorted()).toEqual(
    described.map((each) => [each.method.toLowerCase(), toOpenapiPath(each), each.id]).toSorted(),
  );
  expect(new Set(described.map(({ id }) => id)).size).toBe(described.length);
}

describe('the OpenAPI description', () => {
  it('is OpenAPI 3.1.0 at version 1.0.0, the same as JSON and as YAML', async () => {
    const document = await readDocument();
    expect(document).toMatchObject({ openapi: '3.1.0', info: { version: '1.0.0' } });
    expect(parse(await text('/api/v1/openapi.yaml'))).toEqual(document);
  });

  it('has every capability, every operation once, and every possible response', async () => {
    const document = await readDocument();
    for (const { path } of capabilities) {
      expect(Object.keys(document.paths[`/api/v1${path}`]?.['post']?.responses ?? {})).toEqual(
        expect.arrayContaining(['200', '400', '401', '402', '403', '429', '500']),
      );
    }
    expectEvery(document, [...callerEndpoints, ...openEndpoints]);
  });

  it('for operators requires the admin key, and has every operator endpoint', async () => {
    expect((await gateway.call('/api/admin/v1/openapi.json')).status).toBe(401);
    const { body } = await gateway.admin<Document>('/openapi.json');
    expect(body).toMatchObject({ openapi: '3.1.0', info: { version: '1.0.0' } });
    expectEvery(body, operatorEndpoints);
  });

  it('states the maximum length of a key name', async () => {
    const schema = { properties: { name: { minLength: 1, maxLength: 64 } } };
    const post = { requestBody: { content: { 'application/json': { schema } } } };
    expect((await readDocument()).paths['/api/v1/api-keys']).toMatchObject({ post });
  });

  it('has examples that the API accepts', () => {
    for (const { path, request } of [...callerEndpoints, ...operatorEndpoints]) {
      if (request.example)
        expect(request.body?.safeParse(request.example).error, path).toBeUndefined();
    }
    for (const capability of capabilities) {
      const parsed = capability.request.safeParse(capability.example);
      expect(parsed.error, capability.path).toBeUndefined();
      if (parsed.data) expect(() => capability.plan(parsed.data)).not.toThrow();
    }
  });

  it('has a reference page that loads nothing from other hosts', async () => {
    const page = await text('/docs');
    const links = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link]) => link ?? '');
    expect(links.length).toBeGreaterThan(2);
    for (const link of links) {
      expect(link.startsWith('/docs/')).toBe(true);
      expect((await fetch(gateway.url + link)).status).toBe(200);
    }
    expect((await fetch(`${gateway.url}/docs/package.json`)).status).toBe(404);
  });

  it('has a summary for language models that names every operation', async () => {
    const summary = await text('/llms.txt');
    for (const each of callerEndpoints) expect(summary).toContain(toOpenapiPath(each));
  });
});

describe('what never changes while a process runs', () => {
  it.each([
    '/api/v1/openapi.json',
    '/api/v1/openapi.yaml',
    '/api/v1/pricing',
    '/api/v1/models',
    '/api/v1/models?kind=embedding',
    '/api/v1/studio/models',
    '/llms.txt',
    '/docs/swagger-ui.css',
    '/api/admin/v1/openapi.json',
  ])('is sent once to a client that keeps it: GET %s', async (path) => {
    const isOperators = path.startsWith('/api/admin/');
    const key = isOperators ? gateway.config.ADMIN_API_KEY : gateway.caller.key;
    const get = (headers: Record<string, string> = {}) =>
      fetch(gateway.url + path, { headers: { authorization: `Bearer ${key}`, ...headers } });
    const first = await get();
    const etag = first.headers.get('etag') ?? '';
    expect([first.status, first.headers.get('content-encoding')]).toEqual([200, 'gzip']);
    const again = await get({ 'if-none-match': `"other", ${etag}` });
    expect([again.status, await again.text()]).toEqual([304, '']);
    const plain = await get({ 'accept-encoding': 'identity', 'if-none-match': '"other"' });
    expect([plain.status, plain.headers.get('content-encoding')]).toEqual([200, null]);
    expect(await plain.text()).toBe(await first.text());
  });
});

describe('a path with another method', () => {
  it.each([
    ['PUT', '/api/v1/chat', 'POST'],
    ['PATCH', '/api/v1/api-keys', 'GET, HEAD, POST'],
    ['POST', '/api/v1/models/gpt-4o', 'GET, HEAD'],
  ])('%s %s returns 405 with the allowed methods', async (method, path, allowed) => {
    const answer = await gateway.call(path, { method });
    expect(answer).toMatchObject({ status: 405, body: { error: 'METHOD_NOT_ALLOWED' } });
    expect(answer.headers.get('allow')?.split(', ').toSorted().join(', ')).toBe(allowed);
  });
});
