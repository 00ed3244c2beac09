/** Description of an endpoint, from which the OpenAPI documents are made. */
import type { z } from 'zod';
import type { ErrorCode } from '../../domain/errors.ts';
import type { ErrorShape } from '../http/error-bodies.ts';
import type { RateBucket, Scope } from '../identity/access.ts';

/** Schemas that parse and describe the parts of a request. */
export interface RequestParts {
  params?: z.ZodObject;
  query?: z.ZodObject;
  /** Headers, only for the description: `handle` parses them itself. */
  headers?: z.ZodObject;
  body?: z.ZodType;
  /** Set if the request may have no body; then `{}` is parsed. */
  bodyIsOptional?: true;
  /** Size limit of the body in bytes; if absent 1 MiB, without a key 1 KiB. */
  bodyBytesMax?: number;
  example?: object;
  /** Bodies by media type, only for the description: `handle` reads them itself. */
  content?: Record<string, { schema: z.ZodType; example?: unknown }>;
}

/** Description of the responses with one status. */
export interface AnswerParts {
  description: string;
  /** Schema of the body; if absent, the endpoint's `answer`. */
  schema?: z.ZodType;
  /** Media type; if absent, application/json. */
  type?: string;
  /** Schema of one server-sent event, if the response can be a stream. */
  event?: z.ZodType;
  headers?: z.ZodObject;
}

/** Access to an endpoint: a scope, `any` key, an operator's key (`admin`), or no key (`open`). */
export type EndpointScope = Scope | 'admin' | 'open' | 'any';

/** Description of an endpoint. */
export interface EndpointDescription {
  /** Error message for viewers, if they may not use the endpoint. */
  refusesViewers?: string;
  /** Rate limit of the key in which the request counts; if absent, `requests`. */
  bucket?: RateBucket;
  /** Format of error responses; if absent, the service's own. */
  errorShape?: ErrorShape;
  /** Set if the key may also be sent as `x-api-key`, as Anthropic's clients do. */
  takesXApiKey?: true;
  summary?: string;
  description?: string;
  method: string;
  path: string;
  /** `operationId` and tag in the OpenAPI description. */
  id?: string;
  tag?: string;
  scope: EndpointScope;
  request: RequestParts;
  /** Schema of the body of a 2xx response. */
  answer: z.ZodType;
  answers: Record<number, AnswerParts>;
  /** All error codes of the endpoint. */
  errors: readonly ErrorCode[];
}

/** Returns the path of an endpoint in OpenAPI's format: `/api/v1/studio/jobs/{jobId}`. */
export function describedPath({ path }: Pick<EndpointDescription, 'path'>): string {
  return path.replaceAll(/[:*](\w+)/g, '{$1}');
}
