/**
 * The provider port. An adapter makes single calls: it never waits, retries or bills (design §3.4).
 * The workflow waits, because it is durable.
 */
import { z } from 'zod';
import type { Json, JsonObject } from '../domain/json.ts';
import type { Config } from '../platform/config.ts';
import type { Outbound } from '../platform/outbound.ts';
import type { ProviderFailure } from '../domain/provider-failure.ts';
import type { ProviderOutput } from '../storage/artifacts.ts';
import type { Storage } from '../storage/storage.ts';

/** A paid request. */
export interface Submission {
  operation: string;
  input: JsonObject;
  /** URL to which the provider sends the notification; it names job and call and contains a MAC. */
  notificationUrl: string;
  /** Key that stays the same over retries, for providers that deduplicate by it. */
  idempotencyKey: string;
  signal: AbortSignal;
}

/** Result of a call. */
export interface ProviderResult {
  outputs: ProviderOutput[];
  /**
   * Data in addition to the outputs, or a result that is data; small, because it travels to
   * Temporal.
   */
  data: Json;
  /**
   * Seconds of work or of output, if the provider reports them and the outputs do not show them.
   */
  seconds?: number;
}

/**
 * Operation of queued work: the provider request id, and other fields that the adapter needs to
 * find it.
 */
export const providerOperation = z.object({ id: z.string() }).catchall(z.json());
export type Operation = z.infer<typeof providerOperation>;

/** Response to a submit: finished at once, or queued as an operation. */
export type Submitted =
  | { kind: 'result'; result: ProviderResult }
  | { kind: 'operation'; operation: Operation };

/** Result of one check of a queued operation. */
export type Checked =
  | { kind: 'pending'; progress: Json }
  | { kind: 'result'; result: ProviderResult }
  | { kind: 'failed'; failure: ProviderFailure };

/** Result of a cancel; `requested`: a later check shows whether the operation has stopped. */
export type Canceled = 'canceled' | 'already_done' | 'requested';

/** A verified notification; it only triggers a check of this operation. */
export interface Notification {
  operationId: string;
}

/** Raw notification request. */
export interface RawNotification {
  headers: Record<string, string | undefined>;
  body: Buffer;
}

/** Options of a check. */
export interface CheckOptions {
  signal: AbortSignal;
  /** True if the operation is known to have ended: its result is requested at once. */
  expectDone: boolean;
  /** Trigger of a check whose operation has ended. */
  wokenBy?: 'notification' | 'timer';
}

/** One provider. */
export interface Provider {
  name: string;
  /**
   * Sends a call.
   * @throws ProviderFailure
   */
  submit: (submission: Submission) => Promise<Submitted>;
  /** Queue of the provider; null if it responds to a submit with the result. */
  queue: ProviderQueue | null;
}

/** Queue of a provider: checks, cancels and notifications. */
export interface ProviderQueue {
  /**
   * Checks an operation.
   * @throws ProviderFailure `unreachable` if the response says nothing about the operation
   */
  check: (operation: Operation, options: CheckOptions) => Promise<Checked>;
  cancel: (operation: Operation, signal: AbortSignal) => Promise<Canceled>;
  /** Makes the operation of a request id that a notification names. */
  adopt: (operation: string, operationId: string) => Operation;
  /**
   * Verifies a notification.
   * @throws NotificationRefused if the provider did not sign it within the allowed time;
   * GatewayError SERVICE_UNAVAILABLE if that cannot be verified now
   */
  verify: (raw: RawNotification) => Promise<Notification>;
}

/** A notification that failed its verification. */
export class NotificationRefused extends Error {
  override readonly name = 'NotificationRefused';
}

/** Properties of a provider that are part of each job plan. */
interface ProviderTraits {
  /**
   * True if the provider queues work and notifies its end, so that a notification may name a submit
   * without a response. A provider that responds with the result sends no notifications.
   */
  notifies: boolean;
  /** Milliseconds of a submit after which its outcome is unknown. */
  submitTimeoutMs: number;
}

/** Services that adapters are created with, in addition to their settings. */
export interface ProviderParts {
  outbound: Outbound;
  storage: Storage;
}

interface Definition<Variables extends z.ZodRawShape> {
  /** Name in the routes of the catalog and in the name of the task queue. */
  name: string;
  /** Environment variables of the provider (docs/configuration.md). */
  variables: Variables;
  /**
   * Variable of the provider's key. If it is optional and absent, no route of this provider is
   * used.
   */
  key: keyof Variables & string;
  traits: ProviderTraits;
  /** Concurrent calls per worker process. */
  concurrency: (settings: z.infer<z.ZodObject<Variables>>) => number;
  create: (settings: z.infer<z.ZodObject<Variables>>, parts: ProviderParts) => Provider;
  /**
   * Variables that point the provider at the sandbox; null if the sandbox does not implement it.
   */
  sandbox: ((sandboxUrl: string) => Partial<Record<keyof Variables & string, string>>) | null;
}

/** A provider as the registry holds it. */
export interface ProviderDefinition extends Omit<
  Definition<z.ZodRawShape>,
  'concurrency' | 'create'
> {
  isConfigured: (config: Config) => boolean;
  concurrency: (config: Config) => number;
  create: (config: Config, parts: ProviderParts) => Provider;
}

/** Defines a provider: the default export of its folder's `index.ts`. */
export function defineProvider<Variables extends z.ZodRawShape>(
  definition: Definition<Variables>,
): ProviderDefinition {
  const schema = z.object(definition.variables);
  const settingsOf = (config: Config) => schema.parse(config.PROVIDER_VARIABLES);
  return {
    ...definition,
    isConfigured: (config) => config.PROVIDER_VARIABLES[definition.key] !== undefined,
    concurrency: (config) => definition.concurrency(settingsOf(config)),
    create: (config, parts) => definition.create(settingsOf(config), parts),
  };
}
