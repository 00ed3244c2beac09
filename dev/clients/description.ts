/**
 * OpenAPI description from which the clients' types are generated: only successful responses, with
 * named bodies.
 */
import { isDeepStrictEqual } from 'node:util';
import { assert } from '../../domain/errors.ts';
import { createDocuments } from '../../api/openapi/document.ts';
import { endpoints } from '../../api/endpoints/index.ts';

interface Schema {
  $ref?: string;
  properties?: Record<string, Schema>;
  required?: string[];
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

/** Parts of an OpenAPI document that are used here. */
interface Description {
  paths: Record<string, Methods>;
  components: { schemas: Record<string, Schema> };
}

/** Studio endpoint that creates jobs. */
export interface Capability {
  /** Name that clients use: `run('image/generate', …)`. */
  name: string;
  /** Name of the schema of the request. */
  request: string;
  /** Name of the schema of the result. */
  result: string;
}

const studioPath = '/api/v1/studio/';

/**
 * Makes the description of the callers' API from the list of endpoints, without a server. It has no
 * error responses, because clients throw all errors in one format. Each body has a name.
 */
export function describeForClients(): { description: Description; capabilities: Capability[] } {
  const { json } = createDocuments('http://127.0.0.1:4000', endpoints).callers();
  const description: Description = JSON.parse(json);
  const capabilities: Capability[] = [];
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const endpoint of Object.values(methods)) {
      keepSuccesses(endpoint);
      nameBodies(endpoint, description);
      if (makesJobs(endpoint)) capabilities.push(describeCapability(path, endpoint, description));
    }
  }
  const names = capabilities.map(({ name }) => name);
  const { schemas } = description.components;
  schemas['Capability'] = { type: 'string', enum: names };
  schemas['JobFields'] = withoutResult(schemas['JobOutput']);
  return { description, capabilities };
}

/**
 * Returns the schema of a job without its result, to which the Python client adds a result of the
 * capability's type.
 */
function withoutResult(job: Schema | undefined): Schema {
  assert(job?.properties && job.required, 'JobOutput is described');
  const { result: _, ...properties } = job.properties;
  return { ...job, properties, required: job.required.filter((name) => name !== 'result') };
}

/** Makes the description of the operators' API, from which the console's types are generated. */
export function describeForOperators(): object {
  const documents = createDocuments('http://127.0.0.1:4000', endpoints);
  const description: Description = JSON.parse(documents.operators().json);
  for (const methods of Object.values(description.paths)) {
    for (const endpoint of Object.values(methods)) keepSuccesses(endpoint);
  }
  return description;
}

function keepSuccesses(endpoint: Endpoint): void {
  const successes = Object.entries(endpoint.responses).filter(([status]) => Number(status) < 300);
  for (const [, answer] of successes) delete answer.headers;
  endpoint.responses = Object.fromEntries(successes);
}

const schemaName = ({ operationId }: Endpoint): string =>
  operationId[0]?.toUpperCase() + operationId.slice(1);

function nameBodies(endpoint: Endpoint, { components }: Description): void {
  const name = schemaName(endpoint);
  const request = endpoint.requestBody?.content['application/json'];
  // An estimate has the request body of its capability.
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

/**
 * Returns whether an endpoint creates jobs: it has a request body, and its 202 response is a
 * ticket.
 */
function makesJobs({ requestBody, responses }: Endpoint): boolean {
  const ticket = responses[202]?.content?.['application/json']?.schema.properties?.['data'];
  return requestBody !== undefined && ticket?.$ref === reference('JobTicket').$ref;
}

/**
 * Returns the capability of an endpoint, and names the schema of its result: `data` of the
 * response, or the whole response.
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
  const named = { name: path.slice(studioPath.length), request: `${schemaName(endpoint)}Request` };
  const { data } = properties;
  if (!data) return { ...named, result: answerName };
  const result = `${schemaName(endpoint)}Result`;
  schemas[result] = data;
  properties['data'] = reference(result);
  return { ...named, result };
}
