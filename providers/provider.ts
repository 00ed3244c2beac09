/**
 * Interface of provider adapters. An adapter only sends single requests. The workflow waits,
 * retries and charges, because it is durable.
 */
import { z } from 'zod';
import type { Json, JsonObject } from '../domain/json.ts';
import type { ProviderFailure } from '../domain/provider-failure.ts';
import type { ProviderOutput } from '../storage/provider-output.ts';
import { assert } from '../domain/errors.ts';
import type { Config } from '../platform/config.ts';
import type { Outbound } from '../platform/outbound.ts';
import type { Storage } from '../storage/storage.ts';

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

/** Traits of a provider. Job plans contain them: the workflow does not read the registry. */
interface ProviderTraits {
  /**
   * True if the provider queues operations and sends a notification when one ends. A notification
   * can then identify the operation of a submit that got no response. False if the provider
   * responds to a submit with the result; it then sends no notifications.
   */
  notifies: boolean;
  /** Timeout of a submit in milliseconds. When it expires, the outcome of the call is unknown. */
  submitTimeoutMs: number;
}

/** Services that an adapter receives in addition to its settings. */
export interface AdapterServices {
  outbound: Outbound;
  storage: Storage;
}

interface Definition<Variables extends z.ZodRawShape> {
  /** Name of the provider in the routes of the catalog and in the name of its task queue. */
  name: string;
  /** Environment variables of the provider (docs/configuration.md). */
  variables: Variables;
  /**
   * Name of the environment variable that contains the API key. The variable is optional; without
   * it, the routes of this provider are not used.
   */
  key: keyof Variables & string;
  traits: ProviderTraits;
  /** Maximum number of simultaneous calls per worker process. */
  concurrency: (settings: z.infer<z.ZodObject<Variables>>) => number;
  create: (
    settings: z.infer<z.ZodObject<Variables>>,
    services: AdapterServices & { apiKey: string },
  ) => Provider;
  /**
   * Returns the environment variables that make the adapter use the provider sandbox; null if the
   * sandbox does not simulate this provider.
   */
  sandbox: ((sandboxUrl: string) => Partial<Record<keyof Variables & string, string>>) | null;
}

/** Definition of a provider in the registry. */
export interface ProviderDefinition extends Omit<
  Definition<z.ZodRawShape>,
  'concurrency' | 'create'
> {
  isConfigured: (config: Config) => boolean;
  concurrency: (config: Config) => number;
  create: (config: Config, services: AdapterServices) => Provider;
}

/**
 * Defines a provider. The definition is the default export of `index.ts` in the provider's folder.
 */
export function defineProvider<Variables extends z.ZodRawShape>(
  definition: Definition<Variables>,
): ProviderDefinition {
  const schema = z.object(definition.variables);
  const parseSettings = (config: Config) => schema.parse(config.PROVIDER_VARIABLES);
  return {
    ...definition,
    isConfigured: (config) => config.PROVIDER_VARIABLES[definition.key] !== undefined,
    concurrency: (config) => definition.concurrency(parseSettings(config)),
    create(config, services) {
      const apiKey = config.PROVIDER_VARIABLES[definition.key];
      assert(typeof apiKey === 'string', `${definition.name} has no API key`);
      return definition.create(parseSettings(config), { ...services, apiKey });
    },
  };
}
