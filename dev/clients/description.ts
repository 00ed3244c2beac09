/**
 * OpenAPI document from which the clients' types are generated: only successful responses, with a
 * name for each body.
 */
import { isDeepStrictEqual } from 'node:util';
import { assert } from '../../domain/errors.ts';
import { createDocuments } from '../../api/openapi/document.ts';
import { endpoints } from '../../api/endpoints/index.ts';

interface Schema {
  $ref?: string;
  properties?: Record<string, Schema>;
  enum?: string[];
  type?: string;
}
interface Content {
  'application/json'?: { schema: Schema };
}
interface Answer {
  content?: Content;
  headers?: unknown;
}
interface Endpoint {
  operationId: string;
  requestBody?: { content: Content };
  responses: Record<string, Answer>;
}
type Methods = Record<string, Endpoint>;

/** Fields of OpenAPI that are read here. */
interface Description {
  paths: Record<string, Methods>;
  components: { schemas: Record<string, Schema> };
}

/** Studio endpoint that creates jobs, with the names that clients use. */
export interface Capability {
  /** Name in `run('image/generate', …)`. */
  name: string;
  /** Names of its schemas. */
  request: string;
  result: string;
}

const studioPath = '/api/v1/studio/';

/**
 * Makes the OpenAPI document of the callers' API from the list of endpoints, without a server.
 * Error responses are left out, because clients throw them, and each body gets a name.
 */
export function describeForClients(): { description: Description; capabilities: Capability[] } {
  const { json } = createDocuments('http://127.0.0.1:4000', endpoints).callers();
  const description: Description = JSON.parse(json);
  const capabilities: Capability[] = [];
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const endpoint of Object.values(methods)) {
      keepSuccesses(endpoint);
      nameBodies(endpoint, description);
      if (makesJobs(endpoint)) capabilities.push(capabilityOf(path, endpoint, description));
    }
  }
  const names = capabilities.map(({ name }) => name);
  description.components.schemas['Capability'] = { type: 'string', enum: names };
  return { description, capabilities };
}

/**
 * Makes the OpenAPI document of the operators' API, from which the console's types are generated.
 */
export function describeForOperators(): object {
  const documents = createDocuments('http://127.0.0.1:4000', endpoints);
  const description: Description = JSON.parse(documents.operators().json);
  for (const methods of Object.values(description.paths)) {
    for (const endpoint of Object.values(methods)) keepSuccesses(endpoint);
  }
  return description;
}

function keepSuccesses(endpoint: Endpoint): void {
  const told = Object.entries(endpoint.responses).filter(([status]) => Number(status) < 300);
  for (const [, answer] of told) delete answer.headers;
  endpoint.responses = Object.fromEntries(told);
}

const nameOf = ({ operationId }: Endpoint): string =>
  operationId[0]?.toUpperCase() + operationId.slice(1);

function nameBodies(endpoint: Endpoint, { components }: Description): void {
  const name = nameOf(endpoint);
  const request = endpoint.requestBody?.content['application/json'];
  // An estimate has the same body as the request that it estimates.
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

/** Returns true for an endpoint that accepts a body and can return 202. */
function makesJobs({ requestBody, responses }: Endpoint): boolean {
  const ticket = responses[202]?.content?.['application/json']?.schema.properties?.['data'];
  return requestBody !== undefined && ticket?.$ref === reference('JobTicket').$ref;
}

/** Names the schema of `data` in a response, or of the whole response if it has no `data`. */
function capabilityOf(path: string, endpoint: Endpoint, { components }: Description): Capability {
  const { schemas } = components;
  const answer = endpoint.responses[200]?.content?.['application/json']?.schema.$ref;
  const answerName = answer?.split('/').at(-1) ?? '';
  const properties = schemas[answerName]?.properties;
  assert(properties, `${path} has an answer`);
  const named = { name: path.slice(studioPath.length), request: `${nameOf(endpoint)}Request` };
  const { data } = properties;
  if (!data) return { ...named, result: answerName };
  const result = `${nameOf(endpoint)}Result`;
  schemas[result] = data;
  properties['data'] = reference(result);
  return { ...named, result };
}
