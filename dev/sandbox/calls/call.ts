/** Calls of providers that respond with the result. */
import type { IncomingMessage } from 'node:http';
import type { z } from 'zod';
import type { Fault } from '../faults.ts';
import { readJson, type Exchange } from '../http.ts';

/** Complete response. */
export interface Reply {
  contentType: string;
  bytes: Buffer;
  headers?: Record<string, string>;
}

/** Data for the work of a call. */
export interface CallContext {
  requestId: string;
  faults: readonly Fault[];
}

/**
 * Makes the response to an accepted call.
 * @throws CallRefusedError if it fails
 */
export type Work = (context: CallContext) => Promise<Reply> | Reply;

/** Valid call. */
interface Asked {
  /** Data that the log keeps. */
  body: unknown;
  /** Texts that may contain fault markers. */
  prompt: string;
  /**
   * Checks the call, and returns the function that makes the response after the call was recorded.
   * @throws CallRefusedError if the provider would reject it
   */
  check: () => Work | Promise<Work>;
}

/** One endpoint of a provider. */
export interface CallEndpoint {
  path: RegExp;
  /** Duration, as a multiple of the sandbox's image latency. */
  latencyFactor: number;
  read: (exchange: Exchange) => Promise<Asked>;
}

/** Reason of a failed call. */
export interface CallFailure {
  cause: 'refused' | 'concurrency' | 'failed' | 'policy';
  status: number;
  /** Overrides the provider's name of the error. */
  type: string | undefined;
  endpoint: string;
}

/** Authentication, headers and error format of a provider. */
export interface Dialect {
  createRequestId: () => string;
  isAuthorized: (request: IncomingMessage) => boolean;
  unauthorized: CallRefusedError;
  headers: (requestId: string) => Record<string, string>;
  failure: (failure: CallFailure) => CallRefusedError;
  /** Makes the body of an error response. */
  wording: (refusal: CallRefusedError, requestId: string) => unknown;
}

/** Rejection by the provider: a status, and the parts of its error body. */
export class CallRefusedError extends Error {
  override readonly name = 'CallRefusedError';
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

/** Makes a JSON response. */
export function jsonReply(value: unknown): Reply {
  return { contentType: 'application/json', bytes: Buffer.from(JSON.stringify(value)) };
}

interface JsonEndpoint<Schema extends z.ZodType> extends Omit<CallEndpoint, 'read'> {
  schema: Schema;
  /** Makes the error of a body that does not match the schema. */
  refuse: (error: z.ZodError, body: unknown) => CallRefusedError;
  /** Texts that may contain fault markers. */
  promptOf: (body: z.output<Schema>) => string;
  /** Checks a body and returns the work. */
  check: (body: z.output<Schema>, exchange: Exchange) => Work;
}

/** Makes an endpoint that accepts JSON. */
export function jsonEndpoint<Schema extends z.ZodType>(
  definition: JsonEndpoint<Schema>,
): CallEndpoint {
  const { path, latencyFactor, schema, refuse, promptOf, check } = definition;
  return {
    path,
    latencyFactor,
    read: async (exchange) => {
      const body = await readJson(exchange);
      const parsed = schema.safeParse(body);
      return {
        body,
        prompt: parsed.success ? promptOf(parsed.data) : '',
        check: () => {
          if (!parsed.success) throw refuse(parsed.error, body);
          return check(parsed.data, exchange);
        },
      };
    },
  };
}
