/**
 * Declares an API endpoint as one object. Routing, access checks, parsing (runner.ts) and the
 * OpenAPI documents are derived from it.
 */
import type { RouterContext } from '@koa/router';
import { z } from 'zod';
import type { ErrorCode } from '../../domain/errors.ts';
import type { Composition } from '../composition.ts';
import type { RequestState } from '../context.ts';
import type { Caller } from '../../identity/access.ts';
import type { Operator } from '../../identity/operators.ts';
import type {
  ResponseDescription,
  EndpointDescription,
  EndpointScope,
  RequestParts,
} from './description.ts';

/** Value of `response` for endpoints whose `handle` sets the response on the Koa context itself. */
export const rawResponse = z.void();

type ParsedPart<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined;

/** Request that has passed the access checks, with its parsed parts. */
export interface EndpointCall<Parts extends RequestParts = RequestParts> {
  /** Koa context, for anything that `handle` reads or sets itself. */
  ctx: RouterContext<RequestState>;
  /** Caller. Set only if the endpoint requires an API key. */
  caller: Caller;
  /** Operator. Set only if the scope is `admin`. */
  operator: Operator;
  requestId: string;
  params: ParsedPart<Parts['params']>;
  query: ParsedPart<Parts['query']>;
  body: ParsedPart<Parts['body']>;
}

export interface EndpointDefinition<Parts extends RequestParts, Response> extends Pick<
  EndpointDescription,
  | 'viewerError'
  | 'allowsTokens'
  | 'bucket'
  | 'errorFormat'
  | 'acceptsXApiKey'
  | 'summary'
  | 'description'
> {
  /** Method and path. `:name` matches one path segment, `*name` the rest of the path. */
  route: `${'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS'} /${string}`;
  /** Required access. Defaults to `admin`. If it is `open`, `handle` may check access itself. */
  scope?: EndpointScope;
  request?: Parts;
  /** Schema of the body of a 2xx response, which `handle` returns. */
  response: z.ZodType<Response>;
  /** Response descriptions by status. If there is only one status, the runner sets it. */
  responses?: Record<number, string | ResponseDescription>;
  /** Error codes in addition to those that the other fields imply. */
  errors?: readonly ErrorCode[];
  handle: (
    call: EndpointCall<Parts>,
    services: Composition,
  ) => NoInfer<Response> | Promise<NoInfer<Response>>;
}

/** Endpoint without the types of its request and response, so that one list can hold all. */
export interface Endpoint extends EndpointDescription {
  handle: EndpointDefinition<RequestParts, unknown>['handle'];
}

/** Adds the OpenAPI tag to endpoints, and each endpoint's name as its `operationId`. */
export function defineSection(tag: string, endpoints: Record<string, Endpoint>): Endpoint[] {
  return Object.entries(endpoints).map(([id, endpoint]) => ({ ...endpoint, id, tag }));
}

const keyErrors = [
  'FORBIDDEN',
  'ORGANIZATION_SUSPENDED',
  'Rate limit exceeded. Please slow down.',
] as const;
const bodyErrors = ['PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE', 'REQUEST_TIMEOUT'] as const;

/**
 * Lists all error codes of an endpoint: its own, and those implied by its access and its request.
 */
function listErrorCodes({
  scope,
  request = {},
  errors = [],
}: Pick<EndpointDefinition<RequestParts, unknown>, 'scope' | 'request' | 'errors'>): ErrorCode[] {
  const hasBody = request.body ?? request.content;
  const isRepeatable = request.headers && 'Idempotency-Key' in request.headers.shape;
  const codes = new Set<ErrorCode>([
    ...(scope === 'open' ? [] : (['Unauthorized'] as const)),
    ...(scope === 'open' ? [] : scope === undefined ? (['FORBIDDEN'] as const) : keyErrors),
    ...(hasBody || request.query || request.headers ? (['INVALID_REQUEST'] as const) : []),
    ...(hasBody ? bodyErrors : []),
    ...(isRepeatable ? (['IDEMPOTENCY_KEY_REUSED', 'REQUEST_IN_PROGRESS'] as const) : []),
    ...errors,
    'Internal server error',
    'SERVICE_UNAVAILABLE',
  ]);
  return [...codes];
}

/** Declares an endpoint. `handle` receives exactly the parts that `request` parses. */
export function defineEndpoint<Parts extends RequestParts, Response>(
  definition: EndpointDefinition<Parts, Response>,
): Endpoint {
  const { route, scope = 'admin', request = {}, ...rest } = definition;
  const { responses = { 200: 'Done.' } } = definition;
  const [method, path] = route.split(' ');
  const described = Object.entries(responses).map(([status, response]) => [
    status,
    typeof response === 'string' ? { description: response } : response,
  ]);
  const parts = {
    request,
    errors: listErrorCodes(definition),
    responses: Object.fromEntries(described),
  };
  // oxlint-disable-next-line no-unsafe-type-assertion -- `handle` only receives what `request` has parsed
  return { ...rest, method, path, scope, ...parts } as Endpoint;
}
