/** Definition of a provider: its settings, its properties and the constructor of its adapter. */
import { z } from 'zod';
import { assert } from '../domain/errors.ts';
import type { Config } from '../platform/config.ts';
import type { Outbound } from '../platform/outbound.ts';
import type { Storage } from '../storage/storage.ts';
import type { Provider } from './provider.ts';

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
