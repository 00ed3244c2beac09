/** All providers by name. Adding one is a folder, an import and a line. */
import type { Config } from '../../platform/config.ts';
import type { Storage } from '../storage/storage.ts';
import { createElevenlabsProvider } from './elevenlabs/elevenlabs-provider.ts';
import { createFalProvider } from './fal/fal-provider.ts';
import type { Provider } from './provider.ts';

/** Provider name → how many of its calls one worker process makes at the same time. */
export type ProviderConcurrency = Record<string, number>;

/** The providers that this configuration reaches. */
export function createProviders(
  config: Config,
  { storage }: { storage: Storage },
): Map<string, Provider> {
  const providers = [
    createFalProvider({
      apiKey: config.FAL_KEY,
      queueUrl: config.FAL_QUEUE_URL,
      jwksUrl: config.FAL_JWKS_URL,
    }),
    createElevenlabsProvider({
      apiKey: config.ELEVENLABS_API_KEY,
      baseUrl: config.ELEVENLABS_BASE_URL,
      openFile: (storageKey) => storage.open(storageKey),
    }),
  ];
  return new Map(providers.map((provider) => [provider.name, provider]));
}

/** Calls at the same time per worker process, by provider. */
export function providerConcurrency(config: Config): ProviderConcurrency {
  return { fal: config.FAL_CONCURRENCY, elevenlabs: config.ELEVENLABS_CONCURRENCY };
}
