/**
 * Interface of provider adapters. An adapter only sends single requests: waiting, retries and
 * charges belong to the workflow, which is durable.
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
  /** Key that is the same in all attempts, for providers that use it to detect repetitions. */
  idempotencyKey: string;
  signal: AbortSignal;
}

/** Result of a call. */
export interface ProviderResult {
  outputs: ProviderOutput[];
  /**
   * Data in addition to the outputs, or the result itself if it is data. It must be small, because
   * Temporal's history stores it.
   */
  data: Json;
  /**
   * Seconds of media that were processed or generated; set if the outputs themselves do not show
   * it.
   */
  seconds?: number;
}

/**
 * Schema of a queued operation: the provider's id, and other values that the adapter needs to check
 * the operation.
 */
export const providerOperation = z.object({ id: z.string() }).catchall(z.json());
/** Queued operation of a provider. */
export type ProviderOperation = z.infer<typeof providerOperation>;

/**
 * Response of a provider that accepted a call: the result with the provider's request id (null if
 * it sent none), or the queued operation.
 */
export type SubmitResult =
  | { kind: 'result'; result: ProviderResult; providerRequestId: string | null }
  | { kind: 'operation'; operation: ProviderOperation };

/** Progress of a call at its provider, or `storing` while its result is stored. */
export type CallProgress =
  | { state: 'queued' | 'generating'; queuePosition: number | null }
  | { state: 'storing' };

/** Result of a status check of a queued operation. */
export type CheckResult =
  | { kind: 'pending'; progress: CallProgress }
  | { kind: 'result'; result: ProviderResult }
  | { kind: 'failed'; failure: ProviderFailure };

/**
 * Response to a cancellation request. After `requested`, a later status check shows whether the
 * operation was canceled.
 */
export type CancelResult = 'canceled' | 'already_done' | 'requested';

/** Verified provider notification. Its only content is the id of the operation to check. */
export interface ProviderNotification {
  operationId: string;
}

/** Raw notification request. */
export interface RawNotification {
  headers: Record<string, string | undefined>;
  body: Buffer;
}

/** Options of a status check. */
export interface CheckOptions {
  signal: AbortSignal;
  /**
   * True if the operation is known to have ended, so that its result is requested without a status
   * check.
   */
  expectDone: boolean;
  /** Reason why the result is read now, for metrics. */
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

/** Functions on the operations that a provider has queued, and the verification of its webhooks. */
export interface OperationsApi {
  /**
   * Checks an operation.
   * @throws ProviderFailure `unreachable` if the response does not show its status
   */
  check: (operation: ProviderOperation, options: CheckOptions) => Promise<CheckResult>;
  /** Requests the cancellation of an operation. @throws ProviderFailure `unreachable` */
  cancel: (operation: ProviderOperation, signal: AbortSignal) => Promise<CancelResult>;
  /** Creates an operation from the id in a notification. */
  adopt: (providerEndpoint: string, operationId: string) => ProviderOperation;
  /**
   * Verifies a webhook request.
   * @throws NotificationRejected if the provider did not sign it within the last minutes;
   *   GatewayError SERVICE_UNAVAILABLE if the signature cannot be checked now
   */
  verify: (raw: RawNotification) => Promise<ProviderNotification>;
}

/** Error of a webhook request whose signature, time or body is invalid. */
export class NotificationRejected extends Error {
  override readonly name = 'NotificationRejected';
}
