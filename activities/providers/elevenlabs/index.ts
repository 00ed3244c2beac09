/** ElevenLabs: speech, dialogue, music, sound effects, transcription. */
import { z } from 'zod';
import { count } from '../../../platform/config-variables.ts';
import { defineProvider } from '../definition.ts';
import { createElevenlabsProvider } from './elevenlabs-provider.ts';

export default defineProvider({
  name: 'elevenlabs',
  variables: {
    ELEVENLABS_API_KEY: z.string().min(8),
    ELEVENLABS_BASE_URL: z.url().default('https://api.elevenlabs.io'),
    /** The provider's plan allows few in all. */
    ELEVENLABS_CONCURRENCY: count(1, 2000).default(5),
  },
  key: 'ELEVENLABS_API_KEY',
  traits: { notifies: false, submitTimeoutMs: 300_000 },
  concurrency: (settings) => settings.ELEVENLABS_CONCURRENCY,
  create: (settings, { storage }) =>
    createElevenlabsProvider({
      apiKey: settings.ELEVENLABS_API_KEY,
      baseUrl: settings.ELEVENLABS_BASE_URL,
      openFile: (storageKey) => storage.open(storageKey),
    }),
  sandbox: (url) => ({ ELEVENLABS_BASE_URL: `${url}/elevenlabs` }),
});
