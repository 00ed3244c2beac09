/** Description of an endpoint. The OpenAPI documents are generated from it. */
import type { z } from 'zod';
import type { ErrorCode } from '../../domain/errors.ts';
import type { ErrorFormat } from '../http/error-bodies.ts';
import type { RateBucket, Scope } from '../identity/access.ts';

/** Schemas that parse the parts of a request and describe them in OpenAPI. */
export interface RequestParts {
  params?: z.ZodObject;
  query?: z.ZodObject;
  /** Schema of the headers, used only for OpenAPI; `handle` parses them itself. */
  headers?: z.ZodObject;
  body?: z.ZodType;
  /** Set if the body may be omitted; a missing body is parsed as `{}`. */
  bodyIsOptional?: true;
  /** Maximum body size in bytes. Defaults to 1 MiB, or to 1 KiB if the scope is `open`. */
  bodyBytesMax?: number;
  example?: object;
  /** Bodies by media type, used only for OpenAPI; `handle` reads them itself. */
  content?: Record<string, { schema: z.ZodType; example?: unknown }>;
}

/** Description of the responses with one status. */
export interface ResponseDescription {
  description: string;
  /** Schema of the body. Defaults to the endpoint's `answer`. */
  schema?: z.ZodType;
  /** Media type. Defaults to application/json. */
  type?: string;
  /** Schema of one server-sent event, if the response can be a stream. */
  event?: z.ZodType;
  headers?: z.ZodObject;
}

/**
 * Required access: a key with this scope, `any` key, an operator's key (`admin`), or no key
 * (`open`).
 */
export type EndpointScope = Scope | 'admin' | 'open' | 'any';

/** Description of an endpoint. */
export interface EndpointDescription {
  /** Error message for callers with the role `viewer`. Set if they may not use the endpoint. */
  viewerError?: string;
  /** Rate limit that the request counts toward. Defaults to `requests`. */
  bucket?: RateBucket;
  /** Format of error responses. Defaults to the gateway's own format. */
  errorFormat?: ErrorFormat;
  /** Set if the key may also be sent as `x-api-key`, as Anthropic's clients do. */
  takesXApiKey?: true;
  summary?: string;
  description?: string;
  method: string;
  path: string;
  /** `operationId` of the OpenAPI description. */
  id?: string;
  tag?: string;
  scope: EndpointScope;
  request: RequestParts;
  /** Schema of the body of a 2xx response. */
  answer: z.ZodType;
  answers: Record<number, ResponseDescription>;
  /** All error codes that the endpoint can return. */
  errors: readonly ErrorCode[];
}

/** Returns the path of an endpoint in OpenAPI's format: `/api/v1/studio/jobs/{jobId}`. */
export function toOpenapiPath({ path }: Pick<EndpointDescription, 'path'>): string {
  return path.replaceAll(/[:*](\w+)/g, '{$1}');
}
