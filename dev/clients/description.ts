/** The API's description as the clients' types are made from: successes only, bodies by name. */
import { isDeepStrictEqual } from 'node:util';
import { assert } from '../../domain/errors.ts';
import { createDocuments } from '../../api/openapi/document.ts';
import { operations } from '../../api/operations/index.ts';

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
interface Operation {
  operationId: string;
  requestBody?: { content: Content };
  responses: Record<string, Answer>;
}
type Methods = Record<string, Operation>;

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
 * The description of the callers' API, made from the list of operations without a server. Refusals are
 * left out (clients throw them, all in one shape), and each body has a name of its own.
 */
export function describeForClients(): { description: Description; capabilities: Capability[] } {
  const { json } = createDocuments('http://127.0.0.1:4000', operations).callers();
  const description: Description = JSON.parse(json);
  const capabilities: Capability[] = [];
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const operation of Object.values(methods)) {
      keepSuccesses(operation);
      nameBodies(operation, description);
      if (makesJobs(operation)) capabilities.push(capabilityOf(path, operation, description));
    }
  }
  const names = capabilities.map(({ name }) => name);
  description.components.schemas['Capability'] = { type: 'string', enum: names };
  return { description, capabilities };
}

/** The description of the operators' API, of which the console's types are made. */
export function describeForOperators(): object {
  const documents = createDocuments('http://127.0.0.1:4000', operations);
  const description: Description = JSON.parse(documents.operators().json);
  for (const methods of Object.values(description.paths)) {
    for (const operation of Object.values(methods)) keepSuccesses(operation);
  }
  return description;
}

function keepSuccesses(operation: Operation): void {
  const told = Object.entries(operation.responses).filter(([status]) => Number(status) < 300);
  for (const [, answer] of told) delete answer.headers;
  operation.responses = Object.fromEntries(told);
}

const nameOf = ({ operationId }: Operation): string =>
  operationId[0]?.toUpperCase() + operationId.slice(1);

function nameBodies(operation: Operation, { components }: Description): void {
  const name = nameOf(operation);
  const request = operation.requestBody?.content['application/json'];
  // An estimate takes the body of what it is an estimate of.
  const same = `${name.replace(/Estimate$/, '')}Request`;
  if (request && isDeepStrictEqual(request.schema, components.schemas[same])) {
    request.schema = reference(same);
  }
  const bodies = {
    [`${name}Request`]: request,
    [`${name}Answer`]: operation.responses[200]?.content?.['application/json'],
  };
  for (const [title, body] of Object.entries(bodies)) {
    if (!body || body.schema.$ref) continue;
    components.schemas[title] = body.schema;
    body.schema = reference(title);
  }
}

const reference = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });

/** A body goes in, and what comes back at once is a ticket. */
function makesJobs({ requestBody, responses }: Operation): boolean {
  const ticket = responses[202]?.content?.['application/json']?.schema.properties?.['data'];
  return requestBody !== undefined && ticket?.$ref === reference('JobTicket').$ref;
}

/** Names the `data` of its answer, or the whole answer where that is bare. */
function capabilityOf(path: string, operation: Operation, { components }: Description): Capability {
  const { schemas } = components;
  const answer = operation.responses[200]?.content?.['application/json']?.schema.$ref;
  const answerName = answer?.split('/').at(-1) ?? '';
  const properties = schemas[answerName]?.properties;
  assert(properties, `${path} has an answer`);
  const named = { name: path.slice(studioPath.length), request: `${nameOf(operation)}Request` };
  const { data } = properties;
  if (!data) return { ...named, result: answerName };
  const result = `${nameOf(operation)}Result`;
  schemas[result] = data;
  properties['data'] = reference(result);
  return { ...named, result };
}
