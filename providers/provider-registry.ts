/**
 * Registry of the Studio providers. A new provider needs a folder, an import in this file and an
 * entry in the list of definitions.
 */
import type { Config } from '../platform/config.ts';
import { createShares, type Shares } from '../platform/shares.ts';
import type { ProviderDefinition, AdapterServices, Provider } from './provider.ts';
import elevenlabs from './elevenlabs/index.ts';
import fal from './fal/index.ts';
import openai from './openai/index.ts';

/** Definitions of the Studio providers, by name. */
export const providerDefinitions: ReadonlyMap<string, ProviderDefinition> = new Map(
  [fal, openai, elevenlabs].map((definition) => [definition.name, definition]),
);

/** Creates the adapters of the providers whose API key is configured. */
export function createProviders(config: Config, services: AdapterServices): Map<string, Provider> {
  const configuredDefinitions = [...providerDefinitions].filter(([, { isConfigured }]) =>
    isConfigured(config),
  );
  return new Map(
    configuredDefinitions.map(([name, { create }]) => [name, create(config, services)]),
  );
}

/** Returns the maximum number of simultaneous calls per worker process, by provider name. */
export function providerConcurrency(config: Config): Map<string, number> {
  return new Map(
    [...providerDefinitions].map(([name, { concurrency }]) => [name, concurrency(config)]),
  );
}

/**
 * Creates the slots of a worker process for simultaneous calls, by provider name. Organizations
 * share them.
 */
export const createProviderSlots = (config: Config): Map<string, Shares> =>
  new Map([...providerConcurrency(config)].map(([name, count]) => [name, createShares(count)]));
