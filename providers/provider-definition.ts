/** Defines providers: their settings, their traits and the functions that create their adapters. */
import { z } from 'zod';
import { assert } from '../domain/errors.ts';
import type { Config } from '../platform/config.ts';
import type { Outbound } from '../platform/outbound.ts';
import type { Storage } from '../storage/storage.ts';
import type { Provider } from './provider.ts';

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
