/** What a call is to a provider that answers at once, with the media in the answer itself. */
import type { IncomingMessage } from 'node:http';
import type { z } from 'zod';
import type { Fault } from '../faults.ts';
import { readJson, type Exchange } from '../http.ts';

/** A finished answer. */
export interface Reply {
  contentType: string;
  bytes: Buffer;
  headers?: Record<string, string>;
}

/** What a call's work may know. */
export interface CallContext {
  requestId: string;
  faults: readonly Fault[];
}

/** Makes the answer of an accepted call. @throws CallRefusedError when it fails. */
export type Work = (context: CallContext) => Promise<Reply> | Reply;

/** A call that was understood. */
interface Asked {
  /** What the witness keeps of it. */
  body: unknown;
  /** Where fault markers are looked for. */
  prompt: string;
  /**
   * Checks the call; what it returns makes the answer, after the call was recorded.
   * @throws CallRefusedError when the provider would not take it.
   */
  check: () => Work | Promise<Work>;
}

/** One endpoint of a provider. */
export interface CallEndpoint {
  path: RegExp;
  /** How long it takes, as a multiple of the sandbox's image latency. */
  latencyFactor: number;
  read: (exchange: Exchange) => Promise<Asked>;
}

/** Why a call fails. */
export interface CallFailure {
  cause: 'refused' | 'concurrency' | 'failed' | 'policy';
  status: number;
  /** Overrides the provider's own name of the error. */
  type: string | undefined;
  endpoint: string;
}

/** How one provider asks for its key and words its headers and errors. */
export interface Dialect {
  createRequestId: () => string;
  isAuthorized: (request: IncomingMessage) => boolean;
  unauthorized: CallRefusedError;
  headers: (requestId: string) => Record<string, string>;
  failure: (failure: CallFailure) => CallRefusedError;
  /** The body of an answer with a refusal's status. */
  wording: (refusal: CallRefusedError, requestId: string) => unknown;
}

/** The provider says no: a status and what its dialect needs to word it. */
export class CallRefusedError extends Error {
  override readonly name = 'CallRefusedError';
  readonly status: number;
  /** The provider's machine-readable name of the error. */
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

/** An answer in JSON. */
export function jsonReply(value: unknown): Reply {
  return { contentType: 'application/json', bytes: Buffer.from(JSON.stringify(value)) };
}

interface JsonEndpoint<Schema extends z.ZodType> extends Omit<CallEndpoint, 'read'> {
  schema: Schema;
  /** Words a body that the schema refuses. */
  refuse: (error: z.ZodError, body: unknown) => CallRefusedError;
  /** Where fault markers are looked for. */
  promptOf: (body: z.output<Schema>) => string;
  /** Checks a body and returns the work. */
  check: (body: z.output<Schema>, exchange: Exchange) => Work;
}

/** An endpoint that takes JSON. */
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
