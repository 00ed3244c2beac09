/** OpenAI's Images API: the second route of some image models; without a key they have the first one only. */
import { z } from 'zod';
import { assert } from '../../../domain/assert.ts';
import { count } from '../../../platform/config-variables.ts';
import { defineProvider } from '../definition.ts';
import { createOpenaiProvider } from './openai-provider.ts';

export default defineProvider({
  name: 'openai',
  variables: {
    OPENAI_IMAGES_API_KEY: z.string().min(8).optional(),
    OPENAI_IMAGES_BASE_URL: z.url().default('https://api.openai.com/v1'),
    OPENAI_IMAGES_CONCURRENCY: count(1, 2000).default(20),
  },
  key: 'OPENAI_IMAGES_API_KEY',
  traits: { notifies: false, submitTimeoutMs: 300_000 },
  concurrency: (settings) => settings.OPENAI_IMAGES_CONCURRENCY,
  create({ OPENAI_IMAGES_API_KEY: apiKey, OPENAI_IMAGES_BASE_URL: baseUrl }, { outbound }) {
    assert(apiKey !== undefined, 'only what is configured is created');
    return createOpenaiProvider({ apiKey, baseUrl, outbound });
  },
  sandbox: (url) => ({ OPENAI_IMAGES_BASE_URL: `${url}/openai/v1` }),
});
