/** Types and errors of calls to providers that respond with the result. */
import type { IncomingMessage } from 'node:http';
import type { z } from 'zod';
import type { Fault } from '../faults.ts';
import { readJson, type Exchange } from '../http.ts';

/** Complete response to a call. */
export interface Reply {
  contentType: string;
  bytes: Buffer;
  headers?: Record<string, string>;
}

/** Request id and faults of a call, for the function that builds its response. */
export interface CallContext {
  requestId: string;
  faults: readonly Fault[];
}

/**
 * Builds the response to an accepted call.
 * @throws CallRejectedError if the call fails
 */
export type Work = (context: CallContext) => Promise<Reply> | Reply;

/** Parsed request of a call. */
interface CallRequest {
  /** Body as it is logged. */
  body: unknown;
  /** Text that may contain fault markers. */
  prompt: string;
  /**
   * Checks the call; returns the function that builds the response, to be called once the call is recorded.
   * @throws CallRejectedError if the provider would reject the call
   */
  check: () => Work | Promise<Work>;
}

/** Endpoint of a provider. */
export interface CallEndpoint {
  path: RegExp;
  /** Duration of a call, as a multiple of SANDBOX_LATENCY_MS. */
  latencyFactor: number;
  read: (exchange: Exchange) => Promise<CallRequest>;
}

/** Why a call fails. */
export interface CallFailure {
  cause: 'rejected' | 'concurrency' | 'failed' | 'policy';
  status: number;
  /** Overrides the provider's own error type. */
  type: string | undefined;
  endpoint: string;
}

/** Authentication, response headers and error format of a provider. */
export interface Dialect {
  createRequestId: () => string;
  isAuthorized: (request: IncomingMessage) => boolean;
  unauthorized: CallRejectedError;
  headers: (requestId: string) => Record<string, string>;
  failure: (failure: CallFailure) => CallRejectedError;
  /** Builds the body of an error response. */
  errorBody: (rejection: CallRejectedError, requestId: string) => unknown;
}

/** Error response of the provider: a status and the parts of its body. */
export class CallRejectedError extends Error {
  override readonly name = 'CallRejectedError';
  readonly status: number;
  /** Machine-readable error code of the provider. */
  readonly code: string;
  readonly details: Record<string, unknown>;

  constructor(
    status: number,
    { code, message, ...details }: { code: string; message: string; [detail: string]: unknown },
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
  }
}

/** Builds a JSON response. */
export function buildJsonReply(value: unknown): Reply {
  return { contentType: 'application/json', bytes: Buffer.from(JSON.stringify(value)) };
}

interface JsonEndpoint<Schema extends z.ZodType> extends Omit<CallEndpoint, 'read'> {
  schema: Schema;
  /** Builds the error for a body that does not match the schema. */
  buildError: (error: z.ZodError, body: unknown) => CallRejectedError;
  /** Returns the text that may contain fault markers. */
  readPrompt: (body: z.output<Schema>) => string;
  /** Checks a body, and returns the function that builds the response. */
  check: (body: z.output<Schema>, exchange: Exchange) => Work;
}

/** Creates an endpoint that accepts a JSON body. */
export function createJsonEndpoint<Schema extends z.ZodType>(
  definition: JsonEndpoint<Schema>,
): CallEndpoint {
  const { path, latencyFactor, schema, buildError, readPrompt, check } = definition;
  return {
    path,
    latencyFactor,
    read: async (exchange) => {
      const body = await readJson(exchange);
      const parsed = schema.safeParse(body);
      return {
        body,
        prompt: parsed.success ? readPrompt(parsed.data) : '',
        check: () => {
          if (!parsed.success) throw buildError(parsed.error, body);
          return check(parsed.data, exchange);
        },
      };
    },
  };
}
