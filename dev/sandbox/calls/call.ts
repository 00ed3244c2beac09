/** What a call is to a provider that answers at once, with the media in the answer itself. */
import type { IncomingMessage } from 'node:http';
import { findFault, type Fault } from '../faults.ts';
import type { Exchange } from '../http.ts';

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

const errorPage = Buffer.from('<!doctype html><title>Error</title><h1>Bad gateway</h1>');

/** The bytes, unless a fault spoils them: empty, a web page, or silently half. */
export function spoil(bytes: Buffer, { faults }: CallContext): Buffer {
  if (findFault(faults, 'empty-media')) return Buffer.alloc(0);
  if (findFault(faults, 'wrong-type-media')) return errorPage;
  const isHalf = findFault(faults, 'truncated-media')?.argument === 'silent';
  return isHalf ? bytes.subarray(0, Math.floor(bytes.length / 2)) : bytes;
}
