/** What the gateway knows of a provider: everything outside of its folder is made from this. */
import { z } from 'zod';
import type { Config } from '../../platform/config.ts';
import type { Outbound } from '../../platform/outbound.ts';
import type { Storage } from '../storage/storage.ts';
import type { Provider } from './provider.ts';

/** What the workflow is told of a provider, in the plan of each job. */
export interface ProviderTraits {
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
