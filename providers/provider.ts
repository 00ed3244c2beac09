/**
 * Provider port. An adapter sends single requests: it never waits, retries or charges (design
 * §3.4). Only the workflow waits, because it is durable.
 */
import { z } from 'zod';
import { assert } from '../domain/errors.ts';
import type { Json, JsonObject } from '../domain/json.ts';
import type { Config } from '../platform/config.ts';
import type { Outbound } from '../platform/outbound.ts';
import type { ProviderFailure } from '../domain/provider-failure.ts';
import type { ProviderOutput } from '../storage/artifacts.ts';
import type { Storage } from '../storage/storage.ts';

/** Paid call that is sent to a provider. */
export interface Submission {
  providerEndpoint: string;
  input: JsonObject;
  /** URL to which the provider reports the end of the call; contains job, call and a MAC. */
  notificationUrl: string;
  /** Key that is the same in all attempts, for providers that deduplicate by it. */
  idempotencyKey: string;
  signal: AbortSignal;
}

/** Result of a call. */
export interface ProviderResult {
  outputs: ProviderOutput[];
  /**
   * Small data in addition to the outputs, or the result itself if it is data; it is stored in
   * Temporal's history.
   */
  data: Json;
  /**
   * Seconds that the provider processed or generated, if it reports them and they cannot be
   * measured on the outputs.
   */
  seconds?: number;
}

/**
 * Schema of the handle of a queued operation: the provider's id, and other values that the adapter
 * needs to check it.
 */
export const providerOperation = z.object({ id: z.string() }).catchall(z.json());
/** Handle of a queued operation. */
export type ProviderOperation = z.infer<typeof providerOperation>;

/**
 * Response of a provider that accepted a call: the result with the provider's id of the request
 * (null if it sent none), or the handle of a queued operation.
 */
export type Submitted =
  | { kind: 'result'; result: ProviderResult; providerRequestId: string | null }
  | { kind: 'operation'; operation: ProviderOperation };

/** Progress of a call at its provider, or `storing` while its result is stored. */
export type CallProgress =
  | { state: 'queued' | 'generating'; queuePosition: number | null }
  | { state: 'storing' };

/** Result of a status check of a queued operation. */
export type Checked =
  | { kind: 'pending'; progress: CallProgress }
  | { kind: 'result'; result: ProviderResult }
  | { kind: 'failed'; failure: ProviderFailure };

/** Response of a provider to a cancel; `requested`: a later status check shows the result. */
export type Canceled = 'canceled' | 'already_done' | 'requested';

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
  /** Event that reported the end of the operation whose result is read. */
  wokenBy?: 'notification' | 'timer';
}

/** Adapter of a provider. */
export interface Provider {
  name: string;
  /** Sends a call. @throws ProviderFailure */
  submit: (submission: Submission) => Promise<Submitted>;
  /**
   * Functions on queued operations; null for a provider whose response to a submit is the result.
   */
  queue: ProviderQueue | null;
}

/** Functions of a provider that queues operations: checks, cancels and webhooks. */
export interface ProviderQueue {
  /**
   * Checks an operation.
   * @throws ProviderFailure `unreachable` if the response does not show its status
   */
  check: (operation: ProviderOperation, options: CheckOptions) => Promise<Checked>;
  /** Requests the cancellation of an operation. @throws ProviderFailure `unreachable` */
  cancel: (operation: ProviderOperation, signal: AbortSignal) => Promise<Canceled>;
  /** Returns the handle of an operation that is known only by its id, from a notification. */
  adopt: (providerEndpoint: string, operationId: string) => ProviderOperation;
  /**
   * Verifies a webhook request.
   * @throws NotificationRefused if the provider did not sign it within the last minutes;
   *   GatewayError SERVICE_UNAVAILABLE if the signature cannot be checked now
   */
  verify: (raw: RawNotification) => Promise<ProviderNotification>;
}

/** Error of a webhook request whose signature, time or body is invalid. */
export class NotificationRefused extends Error {
  override readonly name = 'NotificationRefused';
}

/** Properties of a provider that the plan of each job contains for the workflow. */
interface ProviderTraits {
  /**
   * True if the provider queues operations and notifies their end. Then a notification may still
   * name the operation of a submit that had no response. A provider whose response is the result
   * sends no notification.
   */
  notifies: boolean;
  /** Milliseconds after which the outcome of a submit without a response counts as unknown. */
  submitTimeoutMs: number;
}

/** Services that adapters receive in addition to their settings. */
export interface ProviderParts {
  outbound: Outbound;
  storage: Storage;
}

interface Definition<Variables extends z.ZodRawShape> {
  /** Name of the provider, as in the catalog's routes and in the name of its task queue. */
  name: string;
  /** Environment variables of the provider (docs/configuration.md). */
  variables: Variables;
  /**
   * Optional environment variable with the API key. Without it, no route over this provider is
   * used.
   */
  key: keyof Variables & string;
  traits: ProviderTraits;
  /** Maximum number of simultaneous calls per worker process. */
  concurrency: (settings: z.infer<z.ZodObject<Variables>>) => number;
  create: (
    settings: z.infer<z.ZodObject<Variables>>,
    parts: ProviderParts & { apiKey: string },
  ) => Provider;
  /**
   * Returns the variables that point the provider at the provider sandbox; null if the sandbox does
   * not simulate it.
   */
  sandbox: ((sandboxUrl: string) => Partial<Record<keyof Variables & string, string>>) | null;
}

/** Provider in the registry. */
export interface ProviderDefinition extends Omit<
  Definition<z.ZodRawShape>,
  'concurrency' | 'create'
> {
  isConfigured: (config: Config) => boolean;
  concurrency: (config: Config) => number;
  create: (config: Config, parts: ProviderParts) => Provider;
}

/**
 * Defines a provider. The definition is the default export of `index.ts` in the provider's folder.
 */
export function defineProvider<Variables extends z.ZodRawShape>(
  definition: Definition<Variables>,
): ProviderDefinition {
  const schema = z.object(definition.variables);
  const settingsOf = (config: Config) => schema.parse(config.PROVIDER_VARIABLES);
  return {
    ...definition,
    isConfigured: (config) => config.PROVIDER_VARIABLES[definition.key] !== undefined,
    concurrency: (config) => definition.concurrency(settingsOf(config)),
    create(config, parts) {
      const apiKey = config.PROVIDER_VARIABLES[definition.key];
      assert(typeof apiKey === 'string', 'a provider is created only if its key is configured');
      return definition.create(settingsOf(config), { ...parts, apiKey });
    },
  };
}
