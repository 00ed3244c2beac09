/** All providers by name. Adding one is a folder, an import and a line. */
import type { Config } from '../../platform/config.ts';
import type { Outbound } from '../../platform/outbound.ts';
import type { Storage } from '../storage/storage.ts';
import { createElevenlabsProvider } from './elevenlabs/elevenlabs-provider.ts';
import { createFalProvider } from './fal/fal-provider.ts';
import { createOpenaiProvider } from './openai/openai-provider.ts';
import type { Provider } from './provider.ts';

/** Provider name → how many of its calls one worker process makes at the same time. */
export type ProviderConcurrency = Record<string, number>;

/** The providers that this configuration reaches. */
export function createProviders(
  config: Config,
  { outbound, storage }: { outbound: Outbound; storage: Storage },
): Map<string, Provider> {
  const providers = [
    createFalProvider({
      apiKey: config.FAL_KEY,
      queueUrl: config.FAL_QUEUE_URL,
      jwksUrl: config.FAL_JWKS_URL,
    }),
    ...(config.OPENAI_IMAGES_API_KEY === undefined
      ? []
      : [
          createOpenaiProvider({
            apiKey: config.OPENAI_IMAGES_API_KEY,
            baseUrl: config.OPENAI_IMAGES_BASE_URL,
            outbound,
          }),
        ]),
    createElevenlabsProvider({
      apiKey: config.ELEVENLABS_API_KEY,
      baseUrl: config.ELEVENLABS_BASE_URL,
      openFile: (storageKey) => storage.open(storageKey),
    }),
  ];
  return new Map(providers.map((provider) => [provider.name, provider]));
}

/** Whether a route over this provider can be taken: a second route needs a key of its own. */
export function isConfigured(config: Config, provider: string): boolean {
  return provider !== 'openai' || config.OPENAI_IMAGES_API_KEY !== undefined;
}

/** Calls at the same time per worker process, by provider. */
export function providerConcurrency(config: Config): ProviderConcurrency {
  return {
    fal: config.FAL_CONCURRENCY,
    openai: config.OPENAI_IMAGES_CONCURRENCY,
    elevenlabs: config.ELEVENLABS_CONCURRENCY,
  };
}
