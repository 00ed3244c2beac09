/**
 * The provider port. An adapter makes single calls: it never waits, retries or bills (design §3.4).
 * Whoever is durable waits: the workflow.
 */
import { z } from 'zod';
import type { Json, JsonObject } from '../domain/json.ts';
import type { Config } from '../platform/config.ts';
import type { Outbound } from '../platform/outbound.ts';
import type { ProviderFailure } from '../domain/provider-failure.ts';
import type { ProviderOutput } from '../storage/artifacts.ts';
import type { Storage } from '../storage/storage.ts';

/** What one paid request looks like. */
export interface Submission {
  operation: string;
  input: JsonObject;
  /** Where the provider reports the end; names job and call and carries a MAC. */
  notificationUrl: string;
  /** Stable over retries, for providers that dedupe by it. */
  idempotencyKey: string;
  signal: AbortSignal;
}

/** What a provider made of a call. */
export interface ProviderResult {
  outputs: ProviderOutput[];
  /** What is told beside the outputs, or a result that is data: small, it travels to Temporal. */
  data: Json;
  /** Seconds that the provider worked on or made, where it tells and the outputs do not. */
  seconds?: number;
}

/** The handle of queued work: the provider's id, and whatever else the adapter needs to find it. */
export const providerOperation = z.object({ id: z.string() }).catchall(z.json());
export type Operation = z.infer<typeof providerOperation>;

/** The provider took the work: finished at once, or queued under a handle. */
export type Submitted =
  | { kind: 'result'; result: ProviderResult }
  | { kind: 'operation'; operation: Operation };

/** One check of a queued operation. */
export type Checked =
  | { kind: 'pending'; progress: Json }
  | { kind: 'result'; result: ProviderResult }
  | { kind: 'failed'; failure: ProviderFailure };

/** The provider's word on a cancel: gone, too late, or to be seen by checking. */
export type Canceled = 'canceled' | 'already_done' | 'requested';

/** A webhook whose signature holds. It only says: check this operation. */
export interface Notification {
  operationId: string;
}

/** Raw webhook request. */
export interface RawNotification {
  headers: Record<string, string | undefined>;
  body: Buffer;
}

/** How to check an operation. */
export interface CheckOptions {
  signal: AbortSignal;
  /** The operation is known to have ended: its result is requested at once. */
  expectDone: boolean;
  /** What reported the end of the operation whose result is read. */
  wokenBy?: 'notification' | 'timer';
}

/** One provider. */
export interface Provider {
  name: string;
  /** @throws ProviderFailure */
  submit: (submission: Submission) => Promise<Submitted>;
  /** How queued work is found again; null for a provider that answers a submit with the result. */
  queue: ProviderQueue | null;
}

/** The half of a provider that queues work: checks, cancels and webhooks. */
export interface ProviderQueue {
  /** @throws ProviderFailure `unreachable` when nothing was learnt */
  check: (operation: Operation, options: CheckOptions) => Promise<Checked>;
  cancel: (operation: Operation, signal: AbortSignal) => Promise<Canceled>;
  /** The handle of an operation known only by its id, from a notification. */
  adopt: (operation: string, operationId: string) => Operation;
  /**
   * @throws NotificationRefused when it was not signed by the provider just now;
   *   GatewayError SERVICE_UNAVAILABLE when that cannot be known now
   */
  verify: (raw: RawNotification) => Promise<Notification>;
}

/** A webhook that is not what it claims to be. */
export class NotificationRefused extends Error {
  override readonly name = 'NotificationRefused';
}

/** What the workflow is told of a provider, in the plan of each job. */
interface ProviderTraits {
  /**
   * Whether it queues work and notifies its end: then an unanswered submit may yet be named by a
   * notification. A provider that answers with the result itself never tells later.
   */
  notifies: boolean;
  /** Milliseconds a submit may take before its outcome counts as unknown. */
  submitTimeoutMs: number;
}

/** What adapters are made with, beside their settings. */
export interface ProviderParts {
  outbound: Outbound;
  storage: Storage;
}

interface Definition<Variables extends z.ZodRawShape> {
  /** As in the catalog's routes, and in the name of its task queue. */
  name: string;
  /** Its environment variables (docs/configuration.md). */
  variables: Variables;
  /** The variable of its key: where it is optional and absent, no route over this provider is taken. */
  key: keyof Variables & string;
  traits: ProviderTraits;
  /** Calls at the same time per worker process. */
  concurrency: (settings: z.infer<z.ZodObject<Variables>>) => number;
  create: (settings: z.infer<z.ZodObject<Variables>>, parts: ProviderParts) => Provider;
  /** Variables that point it at the provider sandbox; null where the sandbox does not speak for it. */
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
