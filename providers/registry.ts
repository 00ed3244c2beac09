/** All providers by name. Adding one is a folder, an import and a line. */
import { chatProviders } from '../catalog/chat-providers.ts';
import type { Config, KnownProviders } from '../platform/config.ts';
import type { ProviderDefinition, ProviderParts, Provider } from './provider.ts';
import elevenlabs from './elevenlabs/index.ts';
import fal from './fal/index.ts';
import openai from './openai/index.ts';

/** Provider name → definition. */
export const providerDefinitions: ReadonlyMap<string, ProviderDefinition> = new Map(
  [fal, openai, elevenlabs].map((definition) => [definition.name, definition]),
);

/** What `loadConfig` reads of providers: the variables of Studio's, the names of chat's. */
export const knownProviders: KnownProviders = {
  variables: Object.assign({}, ...[...providerDefinitions.values()].map((each) => each.variables)),
  chat: chatProviders.map(({ name }) => name),
};

/** The adapters of the providers that this configuration has a key for. */
export function createProviders(config: Config, parts: ProviderParts): Map<string, Provider> {
  const configured = [...providerDefinitions].filter(([, { isConfigured }]) =>
    isConfigured(config),
  );
  return new Map(configured.map(([name, { create }]) => [name, create(config, parts)]));
}

/** Provider name → calls at the same time per worker process. */
export function providerConcurrency(config: Config): Map<string, number> {
  return new Map(
    [...providerDefinitions].map(([name, { concurrency }]) => [name, concurrency(config)]),
  );
}
