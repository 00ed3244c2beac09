/** Failures of provider calls. */

/** Reason for which a provider call gave no result. */
export type FailureKind =
  /** The input is at fault; the same input fails again. */
  | 'rejected'
  /** The input is against the provider's content policy. */
  | 'content_policy'
  /** Certainly not accepted: may be sent again, to this provider or another one. */
  | 'not_accepted'
  /** Certainly not accepted, and never will be, because of our key or the provider endpoint. Another provider may accept it. */
  | 'refused'
  /** May have been accepted: must never be sent again silently. */
  | 'unknown'
  /** Accepted, and ended without a result. */
  | 'failed'
  /** Accepted, and ended because it was canceled. */
  | 'canceled'
  /** The provider still works on it. */
  | 'unfinished'
  /** The provider gave no usable response; check again later. */
  | 'unreachable';

interface FailureExtras {
  /** Milliseconds after which the provider may be called again. */
  retryAfterMs?: number | undefined;
  /** The provider's id of the request. */
  providerRequestId?: string | null;
  cause?: unknown;
}

/** Failure of a provider call. The message is the gateway's own, never the provider's text. */
export class ProviderFailure extends Error {
  override readonly name = 'ProviderFailure';
  readonly kind: FailureKind;
  readonly retryAfterMs: number | undefined;
  readonly providerRequestId: string | null;

  constructor(kind: FailureKind, message: string, extras: FailureExtras = {}) {
    super(message, { cause: extras.cause });
    this.kind = kind;
    this.retryAfterMs = extras.retryAfterMs;
    this.providerRequestId = extras.providerRequestId ?? null;
  }
}
