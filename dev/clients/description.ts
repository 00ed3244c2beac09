/** OpenAPI descriptions from which the clients' types are generated. They have no error responses, and each body has a name. */
import { isDeepStrictEqual } from 'node:util';
import { assert } from '../../domain/errors.ts';
import { createDescriptions } from '../../api/openapi/document.ts';
import { endpoints } from '../../api/endpoints/index.ts';
import { chatUses } from '../../chat/item-chats.ts';

interface Schema {
  $ref?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  enum?: string[];
  type?: string;
}
/** Media types of texts that a response can be instead. */
const textTypes = ['text/csv', 'text/plain', 'text/vtt'] as const;
type Content = Partial<Record<'application/json' | (typeof textTypes)[number], { schema: Schema }>>;

interface Response {
  content?: Content;
  headers?: unknown;
}
interface Endpoint {
  operationId: string;
  requestBody?: { content: Content };
  responses: Record<string, Response>;
}
type Methods = Record<string, Endpoint>;

/** Parts of an OpenAPI document that are needed here. */
interface Description {
  paths: Record<string, Methods>;
  components: { schemas: Record<string, Schema> };
}

export interface Capability {
  /** Name in the clients, for example `image/generate`. */
  name: string;
  /** Name of the request's schema. */
  request: string;
  /** Name of the result's schema. */
  result: string;
}

const apiPath = '/api/v1/';
const studioPath = `${apiPath}studio/`;
const values = { baseUrl: 'http://127.0.0.1:4000', prices: [] };

/**
 * Builds the description of the callers' API from the list of endpoints. It has no error responses, because clients throw all
 * errors in one format. Each body has a named schema.
 */
export function describeForClients(): {
  description: Description;
  capabilities: Capability[];
  /** Chat endpoints that an item of a bulk job may use. */
  chats: Capability[];
} {
  const description: Description = JSON.parse(createDescriptions(values, endpoints).callers);
  const capabilities: Capability[] = [];
  const chats: Capability[] = [];
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const endpoint of Object.values(methods)) {
      removeErrorResponses(endpoint);
      nameBodies(endpoint, description);
      // The clients have a method of their own for jobs that continue another.
      if (path.startsWith(studioPath) && createsJobs(endpoint) && !path.includes('{'))
        capabilities.push(describeCapability(path, endpoint, description));
      const use = path.slice(apiPath.length);
      if (chatUses.has(use) && endpoint.requestBody) {
        const name = schemaName(endpoint);
        chats.push({ name: use, request: `${name}Request`, result: `${name}Answer` });
      }
    }
  }
  const names = capabilities.map(({ name }) => name);
  const { schemas } = description.components;
  schemas['Capability'] = { type: 'string', enum: names };
  schemas['JobFields'] = omitProperties(schemas['JobOutput'], ['result']);
  schemas['BulkResultFields'] = omitProperties(schemas['BulkResult'], ['data']);
  schemas['BulkOptions'] = omitProperties(schemas['StartBulkRequest'], ['items', 'defaults']);
  return { description, capabilities, chats };
}

/**
 * Returns the schema of an object without some properties. The Python client adds a result with the capability's type.
 */
function omitProperties(schema: Schema | undefined, omitted: readonly string[]): Schema {
  assert(schema?.properties && schema.required, 'the object is described');
  const kept = Object.entries(schema.properties).filter(([name]) => !omitted.includes(name));
  const required = schema.required.filter((name) => !omitted.includes(name));
  return { ...schema, properties: Object.fromEntries(kept), required };
}

/**
 * Builds the description of the operators' API, from which the console's types are generated. It has the endpoints that the
 * console calls with types: those that read, and the sign-in. It sends other requests by path (operator-action.tsx).
 */
export function describeForOperators(): object {
  const description: Description = JSON.parse(createDescriptions(values, endpoints).operators);
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, endpoint] of Object.entries(methods)) {
      if (method !== 'get' && path !== '/api/admin/v1/session') delete methods[method];
      else removeErrorResponses(endpoint);
    }
    if (Object.keys(methods).length === 0) delete description.paths[path];
  }
  return description;
}

function removeErrorResponses(endpoint: Endpoint): void {
  const successes = Object.entries(endpoint.responses).filter(([status]) => Number(status) < 300);
  for (const [, answer] of successes) {
    delete answer.headers;
    // Clients read JSON where a response can also be a text.
    for (const type of textTypes) delete answer.content?.[type];
  }
  endpoint.responses = Object.fromEntries(successes);
}

const schemaName = ({ operationId }: Endpoint): string =>
  operationId[0]?.toUpperCase() + operationId.slice(1);

function nameBodies(endpoint: Endpoint, { components }: Description): void {
  const name = schemaName(endpoint);
  const request = endpoint.requestBody?.content['application/json'];
  // An estimate has the same request body as its capability.
  const same = `${name.replace(/Estimate$/, '')}Request`;
  if (request && isDeepStrictEqual(request.schema, components.schemas[same])) {
    request.schema = reference(same);
  }
  const bodies = {
    [`${name}Request`]: request,
    [`${name}Answer`]: endpoint.responses[200]?.content?.['application/json'],
  };
  for (const [title, body] of Object.entries(bodies)) {
    if (!body || body.schema.$ref) continue;
    components.schemas[title] = body.schema;
    body.schema = reference(title);
  }
}

const reference = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });

/** Returns whether an endpoint creates jobs: it has a request body and a 202 response with a JobTicket. */
function createsJobs({ requestBody, responses }: Endpoint): boolean {
  const ticket = responses[202]?.content?.['application/json']?.schema.properties?.['data'];
  return requestBody !== undefined && ticket?.$ref === reference('JobTicket').$ref;
}

/**
 * Describes the capability of an endpoint, and names the schema of its result: the response's `data` if it has one, otherwise
 * the whole response.
 */
function describeCapability(
  path: string,
  endpoint: Endpoint,
  { components }: Description,
): Capability {
  const { schemas } = components;
  const answer = endpoint.responses[200]?.content?.['application/json']?.schema.$ref;
  const answerName = answer?.split('/').at(-1) ?? '';
  const properties = schemas[answerName]?.properties;
  assert(properties, `${path} has an answer`);
  const names = { name: path.slice(studioPath.length), request: `${schemaName(endpoint)}Request` };
  const { data } = properties;
  if (!data) return { ...names, result: answerName };
  const result = `${schemaName(endpoint)}Result`;
  schemas[result] = data;
  properties['data'] = reference(result);
  return { ...names, result };
}
