/**
 * Interface of provider adapters. An adapter only sends single requests. The workflow waits,
 * retries and charges, because it is durable.
 */
import { z } from 'zod';
import type { Json, JsonObject } from '../domain/json.ts';
import type { ProviderFailure } from '../domain/provider-failure.ts';
import type { ProviderOutput } from '../storage/provider-output.ts';

/** Paid call that is sent to a provider. */
export interface Submission {
  providerEndpoint: string;
  input: JsonObject;
  /**
   * URL to which the provider reports the end of the call. It contains the job id, the call index
   * and a MAC.
   */
  notificationUrl: string;
  /** Idempotency key, the same in all attempts; some providers detect repeated calls by it. */
  idempotencyKey: string;
  signal: AbortSignal;
}

/** Result of a call. */
export interface ProviderResult {
  outputs: ProviderOutput[];
  /**
   * Data that the provider returned in addition to the outputs. If the result has no outputs, the
   * data is the result. It must be small, because Temporal's history stores it.
   */
  data: Json;
  /**
   * Duration of the processed or generated media in seconds; absent if the duration can be read
   * from the outputs.
   */
  seconds?: number;
}

/**
 * Schema of a queued operation: the id that the provider gave it, and other values with which the
 * adapter checks it.
 */
export const providerOperation = z.object({ id: z.string() }).catchall(z.json());
export type ProviderOperation = z.infer<typeof providerOperation>;

/**
 * Response of a provider that accepted a call. `result`: the result, with the provider request id
 * (null if the provider sent none). `operation`: the queued operation.
 */
export type SubmitResult =
  | { kind: 'result'; result: ProviderResult; providerRequestId: string | null }
  | { kind: 'operation'; operation: ProviderOperation };

/** Progress of a call at its provider, or `storing` while the gateway stores the result. */
export type CallProgress =
  | { state: 'queued' | 'generating'; queuePosition: number | null }
  | { state: 'storing' };

/** Result of a status check of a queued operation. */
export type CheckResult =
  | { kind: 'pending'; progress: CallProgress }
  | { kind: 'result'; result: ProviderResult }
  | { kind: 'failed'; failure: ProviderFailure };

/**
 * Result of a cancellation request. If it is `requested`, a later status check shows whether the
 * operation was canceled.
 */
export type CancelResult = 'canceled' | 'already_done' | 'requested';

/** Verified provider notification. It contains only the id of the operation to check. */
export interface ProviderNotification {
  operationId: string;
}

/** Headers and body of a notification request that is not verified. */
export interface RawNotification {
  headers: Record<string, string | undefined>;
  body: Buffer;
}

/** Options of a status check. */
export interface CheckOptions {
  signal: AbortSignal;
  /**
   * True if the operation is known to have ended. Its result is then requested without a status
   * check.
   */
  hasEnded: boolean;
  /** Event that caused the check, for the metrics. */
  wokenBy?: 'notification' | 'timer';
}

/** Adapter of a provider. */
export interface Provider {
  name: string;
  /** Sends a call. @throws ProviderFailure */
  submit: (submission: Submission) => Promise<SubmitResult>;
  /** Functions on queued operations; null if the provider responds to a submit with the result. */
  operations: OperationsApi | null;
}

/** Functions on the queued operations of a provider, and the verification of its notifications. */
export interface OperationsApi {
  /**
   * Requests the status and, after the end, the result of an operation.
   * @throws ProviderFailure `unreachable` if the response does not show the status
   */
  check: (operation: ProviderOperation, options: CheckOptions) => Promise<CheckResult>;
  /**
   * Requests the cancellation of an operation.
   * @throws ProviderFailure `unreachable` if the response does not show whether the provider
   * received the request
   */
  cancel: (operation: ProviderOperation, signal: AbortSignal) => Promise<CancelResult>;
  /** Creates an operation from the operation id in a notification. */
  adopt: (providerEndpoint: string, operationId: string) => ProviderOperation;
  /**
   * Verifies a webhook request.
   * @throws NotificationRejected if the provider did not sign it within the last minutes;
   *   GatewayError SERVICE_UNAVAILABLE if the signature cannot be checked now
   */
  verify: (raw: RawNotification) => Promise<ProviderNotification>;
}

/** Error for a notification request whose signature, timestamp or body is invalid. */
export class NotificationRejected extends Error {
  override readonly name = 'NotificationRejected';
}
