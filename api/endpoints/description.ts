/** Description of an endpoint. The OpenAPI documents are generated from it. */
import type { z } from 'zod';
import type { ErrorCode } from '../../domain/errors.ts';
import type { ErrorFormat } from '../../domain/error-bodies.ts';
import type { RateBucket, RequiredScope } from '../../identity/access.ts';

/** Schemas that parse the parts of a request and describe them in OpenAPI. */
export interface RequestParts {
  params?: z.ZodObject;
  query?: z.ZodObject;
  /** Schema of the request headers, used only for OpenAPI; `handle` parses them itself. */
  headers?: z.ZodObject;
  body?: z.ZodType;
  /** Maximum body size in bytes. Defaults to 1 MiB, or to 1 KiB if the scope is `open`. */
  bodyBytesMax?: number;
  /** Maximum number of values in the JSON of the body; see `JsonMeter` for the default. */
  bodyValuesMax?: number;
  /** Repairs texts of the body that would otherwise be rejected. */
  repair?: (body: Record<string, unknown>) => void;
  /** Names of the fields in which numbers keep their digits (`parseExact`). */
  exactFields?: ReadonlySet<string>;
  example?: object;
  /** Request body schemas by media type, only for OpenAPI; `handle` reads the body itself. */
  content?: Record<string, { schema: z.ZodType; example?: unknown }>;
}

/** Returns whether the request body may be omitted: a missing body is parsed as `{}`. */
export const isBodyOptional = ({ body }: RequestParts): boolean =>
  body?.safeParse({}).success === true;

/** OpenAPI description of the responses with one status code. */
export interface ResponseDescription {
  description: string;
  /** Schema of the response body. Defaults to the endpoint's `response`. */
  schema?: z.ZodType;
  /** Media type. Defaults to application/json. */
  type?: string;
  /** Schema of one server-sent event, if the response can be a stream. */
  event?: z.ZodType;
  /** Further media types of the response, whose content is a text. */
  textTypes?: readonly string[];
  headers?: z.ZodObject;
}

/**
 * Access that an endpoint requires. `admin`: an operator's key; `open`: no key; otherwise an API key
 * with this scope.
 */
export type EndpointScope = RequiredScope | 'admin' | 'open';

/** Description of an endpoint. */
export interface EndpointDescription {
  /** Error message for callers with the role `viewer`; undefined if they may use the endpoint. */
  viewerError?: string;
  /** True if browser tokens may use the endpoint. Its answer must show nothing of other end users. */
  allowsTokens?: true;
  /** Rate limit that the request counts toward. Defaults to `requests`. */
  bucket?: RateBucket;
  /** Format of error responses. Defaults to the gateway's own format. */
  errorFormat?: ErrorFormat;
  /** True if the API key may also be sent in the header `x-api-key`, as Anthropic's clients do. */
  acceptsXApiKey?: true;
  summary?: string;
  description?: string;
  method: string;
  path: string;
  /** `operationId` in the OpenAPI documents. */
  id?: string;
  tag?: string;
  scope: EndpointScope;
  request: RequestParts;
  /** Schema of the body of a 2xx response. */
  response: z.ZodType;
  /** Responses by status. */
  responses: Record<number, ResponseDescription>;
  /** All error codes that the endpoint can return. */
  errors: readonly ErrorCode[];
}

/** Returns the path of an endpoint in OpenAPI's format: `/api/v1/studio/jobs/{jobId}`. */
export function toOpenapiPath({ path }: Pick<EndpointDescription, 'path'>): string {
  return path.replaceAll(/[:*](\w+)/g, '{$1}');
}
