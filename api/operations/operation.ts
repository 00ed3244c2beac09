/**
 * An operation of the API as one object: where it is asked, who may, what it takes and answers, and what
 * it does. The router, the gate, the parsing (runner.ts) and the description (openapi/document.ts) are
 * made from it; api/operations/index.ts is the list.
 */
import type { RouterContext } from '@koa/router';
import { z } from 'zod';
import type { ErrorCode } from '../../domain/errors.ts';
import type { Composition } from '../composition.ts';
import type { RequestState } from '../context.ts';
import type { Caller, RateBucket, Scope } from '../identity/access.ts';
import type { Operator } from '../identity/operators.ts';
import type { ErrorShape } from '../middleware/errors.ts';

/** The parts of a request, each by the schema that parses and describes it. */
export interface RequestParts {
  /** Words of the path. One that does not fit names nothing: the first 404 of `errors`. */
  params?: z.ZodObject;
  query?: z.ZodObject;
  /** Described only. */
  headers?: z.ZodObject;
  /** A JSON body. */
  body?: z.ZodType;
  /** Without a body `{}` is parsed. */
  bodyIsOptional?: true;
  /** A mebibyte where absent. */
  bodyBytesMax?: number;
  /** A body that works. */
  example?: object;
  /** Bodies by media type that `handle` reads itself. */
  content?: Record<string, { schema: z.ZodType; example?: unknown }>;
}

/** What is told of the answers of one status. */
export interface AnswerParts {
  description: string;
  /** Absent: the operation's `answer`. */
  schema?: z.ZodType;
  /** application/json where absent. */
  type?: string;
  /** One event of the same answer as a stream of server-sent events, where it can be one. */
  event?: z.ZodType;
  headers?: z.ZodObject;
}

/** The `answer` of an operation whose `handle` sets the answer on the context itself. */
export const ownAnswer = z.void();

type Parsed<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined;

/** A request that passed the gate, parsed. */
export interface Call<Parts extends RequestParts = RequestParts> {
  /** Headers and status of the answer, and what `handle` reads itself. */
  ctx: RouterContext<RequestState>;
  /** Of an operation with a key's scope. */
  caller: Caller;
  /** Of an operation of operators. */
  operator: Operator;
  requestId: string;
  params: Parsed<Parts['params']>;
  query: Parsed<Parts['query']>;
  body: Parsed<Parts['body']>;
}

interface Definition<Parts extends RequestParts, Answer> {
  /** As the router reads it: `:name` is a word of the path, `*name` its rest. */
  route: `${'GET' | 'POST' | 'PUT' | 'DELETE' | 'OPTIONS'} /${string}`;
  /** What a key needs; absent: an operator's key; `any`: nothing; `open`: there is none, or what `handle` asks for itself. */
  scope?: Scope | 'admin' | 'open' | 'any';
  /** Said to a viewer, who may not do this. */
  refusesViewers?: string;
  /** Which requests of the key it is counted among; `requests` where absent. */
  bucket?: RateBucket;
  /** Whose clients read its errors; the service's own where absent. */
  errorShape?: ErrorShape;
  /** Whether the key may come as `x-api-key` too, as Anthropic's clients send it. */
  takesXApiKey?: true;
  /** In the description; an open operation without a name is in none. */
  summary?: string;
  description?: string;
  request?: Parts;
  /** The body of a 2xx: what `handle` returns. */
  answer: z.ZodType<Answer>;
  /** What is told of each status; one that is the only one is set. */
  answers?: Record<number, string | AnswerParts>;
  /** Codes beside those that follow from the rest. */
  errors?: readonly ErrorCode[];
  handle: (call: Call<Parts>, services: Composition) => NoInfer<Answer> | Promise<NoInfer<Answer>>;
}

/** An operation whose types nobody outside its file needs to know. */
export interface Operation extends Omit<
  Definition<RequestParts, unknown>,
  'route' | 'scope' | 'request' | 'answers' | 'errors'
> {
  method: string;
  path: string;
  /** Its name and its place in the description. */
  id?: string;
  tag?: string;
  scope: Scope | 'admin' | 'open' | 'any';
  request: RequestParts;
  answers: Record<number, AnswerParts>;
  /** All that it can answer. */
  errors: readonly ErrorCode[];
}

/** Gives operations their names, and their place in the description. */
export function section(tag: string, operations: Record<string, Operation>): Operation[] {
  return Object.entries(operations).map(([id, operation]) => ({ ...operation, id, tag }));
}

const keyed = [
  'FORBIDDEN',
  'ORGANIZATION_SUSPENDED',
  'Rate limit exceeded. Please slow down.',
] as const;
const bodied = ['PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE', 'REQUEST_TIMEOUT'] as const;

/** Codes that follow from what an operation needs and takes, and its own. */
function codesOf({
  scope,
  request = {},
  errors = [],
}: Pick<Definition<RequestParts, unknown>, 'scope' | 'request' | 'errors'>): ErrorCode[] {
  const hasBody = request.body ?? request.content;
  const isRepeatable = request.headers && 'Idempotency-Key' in request.headers.shape;
  const codes = new Set<ErrorCode>([
    ...(scope === 'open' ? [] : (['Unauthorized'] as const)),
    ...(scope === 'open' ? [] : scope === undefined ? (['FORBIDDEN'] as const) : keyed),
    ...(hasBody || request.query || request.headers ? (['INVALID_REQUEST'] as const) : []),
    ...(hasBody ? bodied : []),
    ...(isRepeatable ? (['IDEMPOTENCY_KEY_REUSED', 'REQUEST_IN_PROGRESS'] as const) : []),
    ...errors,
    'Internal server error',
    'SERVICE_UNAVAILABLE',
  ]);
  return [...codes];
}

/** Declares an operation: `handle` is given exactly what `request` parses. */
export function defineOperation<Parts extends RequestParts, Answer>(
  definition: Definition<Parts, Answer>,
): Operation {
  const { route, scope = 'admin', request = {}, ...rest } = definition;
  const { answers = { 200: 'Done.' } } = definition;
  const [method, path] = route.split(' ');
  const told = Object.entries(answers).map(([status, answer]) => [
    status,
    typeof answer === 'string' ? { description: answer } : answer,
  ]);
  const parts = { request, errors: codesOf(definition), answers: Object.fromEntries(told) };
  // oxlint-disable-next-line no-unsafe-type-assertion -- `handle` is only ever given what `request` parsed
  return { ...rest, method, path, scope, ...parts } as Operation;
}
