/** fal: queues work and notifies its end. */
import { z } from 'zod';
import { count } from '../../../platform/config-variables.ts';
import { defineProvider } from '../definition.ts';
import { createFalProvider } from './fal-provider.ts';

export default defineProvider({
  name: 'fal',
  variables: {
    FAL_KEY: z.string().min(8),
    FAL_QUEUE_URL: z.url().default('https://queue.fal.run'),
    FAL_JWKS_URL: z.url().default('https://rest.fal.ai/.well-known/jwks.json'),
    FAL_CONCURRENCY: count(1, 2000).default(200),
  },
  key: 'FAL_KEY',
  traits: { notifies: true, submitTimeoutMs: 45_000 },
  concurrency: (settings) => settings.FAL_CONCURRENCY,
  create: (settings) =>
    createFalProvider({
      apiKey: settings.FAL_KEY,
      queueUrl: settings.FAL_QUEUE_URL,
      jwksUrl: settings.FAL_JWKS_URL,
    }),
  sandbox: (url) => ({
    FAL_QUEUE_URL: `${url}/fal/queue`,
    FAL_JWKS_URL: `${url}/fal/.well-known/jwks.json`,
  }),
});
