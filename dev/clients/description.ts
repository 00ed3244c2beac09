/** The API's description as the clients' types are made from: successes only, bodies by name. */
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

/** OpenAPI as far as it is read here. */
interface Description {
  paths: Record<string, Methods>;
  components: { schemas: Record<string, Schema> };
}

/** A Studio endpoint that makes jobs, by the names that clients use. */
export interface Capability {
  /** As in `run('image/generate', …)`. */
  name: string;
  /** Names of schemas. */
  request: string;
  result: string;
}

const studioPath = '/api/v1/studio/';

/**
 * The description of the callers' API, made from the list of endpoints without a server. Refusals are
 * left out (clients throw them, all in one shape), and each body has a name of its own.
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

/** The description of the operators' API, of which the console's types are made. */
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
  // An estimate takes the body of what it is an estimate of.
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

/** A body goes in, and what comes back at once is a ticket. */
function makesJobs({ requestBody, responses }: Endpoint): boolean {
  const ticket = responses[202]?.content?.['application/json']?.schema.properties?.['data'];
  return requestBody !== undefined && ticket?.$ref === reference('JobTicket').$ref;
}

/** Names the `data` of its answer, or the whole answer where that is bare. */
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
