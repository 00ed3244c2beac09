/** Reason why a provider call has no result. */
export type FailureKind =
  /** The provider rejected the input; the same input fails again. */
  | 'rejected'
  /** The input violates the provider's content policy. */
  | 'content_policy'
  /**
   * The provider could not download an input file. It has done no work, and the call may be sent
   * again.
   */
  | 'input_unread'
  /** The provider certainly did not accept the call now, so it may be sent again. */
  | 'not_accepted'
  /**
   * The provider certainly did not accept the call, and will not accept it later, because of the
   * gateway's API key or the provider endpoint.
   */
  | 'misconfigured'
  /** The provider may have accepted the call, so it must not be sent again. */
  | 'unknown'
  /** The provider accepted the call, and it ended without a result. */
  | 'failed'
  /** The provider accepted the call, and it ended because it was canceled. */
  | 'canceled'
  /** The provider is still working on the call. */
  | 'unfinished'
  /** The provider sent no usable response; the call is checked again later. */
  | 'unreachable';

interface FailureExtras {
  /** Milliseconds to wait before the provider may be called again. */
  retryAfterMs?: number | undefined;
  providerRequestId?: string | null;
  providerErrorType?: string | null | undefined;
  cause?: unknown;
}

const errorTypeLengthMax = 100;

/** Removes characters that no error type needs. Returns null if nothing remains. */
function cleanErrorType(type: string): string | null {
  const plainType = type.replaceAll(/[^\w.:/ -]+/g, '').trim();
  return plainType === '' ? null : plainType.slice(0, errorTypeLengthMax);
}

/** Failure of a provider call. The message is the gateway's own, never the provider's text. */
export class ProviderFailure extends Error {
  override readonly name = 'ProviderFailure';
  readonly kind: FailureKind;
  readonly retryAfterMs: number | undefined;
  readonly providerRequestId: string | null;
  /** Provider's own type or code of the error, for operators only; null if it sent none. */
  readonly providerErrorType: string | null;
  /** Number of submits of the call on this route that the provider did not accept, if known. */
  unacceptedSubmits: number | undefined;

  constructor(kind: FailureKind, message: string, extras: FailureExtras = {}) {
    super(message, { cause: extras.cause });
    this.kind = kind;
    this.retryAfterMs = extras.retryAfterMs;
    this.providerRequestId = extras.providerRequestId ?? null;
    this.providerErrorType = cleanErrorType(extras.providerErrorType ?? '');
  }
}
