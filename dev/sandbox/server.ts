/**
 * Provider sandbox: speaks the protocols of real providers over HTTP, generates media, and produces faults on request. Each
 * provider has a folder. The sandbox shares no code with the gateway except `domain/`, because a real provider shares none.
 */
import { createServer } from 'node:http';
import { z } from 'zod';
import { assert } from '../../domain/errors.ts';
import { adminRoutes } from './admin.ts';
import { CallLog } from './calls/call-log.ts';
import { chatRoutes } from './chat/chat.ts';
import { createCounters } from './counters.ts';
import { elevenLabsRoutes } from './elevenlabs/elevenlabs.ts';
import { createFal } from './fal/fal.ts';
import { FaultBook } from './faults.ts';
import { createListener } from './http.ts';
import { openAiRoutes } from './openai/openai.ts';

const flag = (preset: '0' | '1') =>
  z
    .enum(['0', '1'])
    .default(preset)
    .transform((text) => text === '1');

/** Settings of a sandbox, from its environment. */
export const sandboxOptions = z
  .object({
    SANDBOX_HOST: z.string().default('127.0.0.1'),
    /** Port to listen on; 0 for any free port. */
    SANDBOX_PORT: z.coerce.number().int().min(0).max(65_535).default(4100),
    /** Directory for the logs and the signing key. */
    SANDBOX_DATA_DIR: z.string().default('.data/sandbox'),
    /** API keys that callers must use: for fal's queue, ElevenLabs, OpenAI's images and both chat protocols. */
    SANDBOX_FAL_KEY: z.string().min(1).default('sandbox-fal-key'),
    SANDBOX_ELEVENLABS_KEY: z.string().min(1).default('sandbox-elevenlabs-key'),
    SANDBOX_OPENAI_KEY: z.string().min(1).default('sandbox-openai-key'),
    SANDBOX_CHAT_KEY: z.string().min(1).default('sandbox-chat-key'),
    /** Time to generate an image, in milliseconds. */
    SANDBOX_LATENCY_MS: z.coerce.number().min(0).default(300),
    /** Whether to generate tiny media (`MediaSize`); tests can change it while the sandbox runs. */
    SANDBOX_TINY_MEDIA: flag('0'),
    /** Whether an accepted request must be on disk before the response. */
    SANDBOX_FSYNC: flag('1'),
  })
  .transform((env) => ({
    host: env.SANDBOX_HOST,
    port: env.SANDBOX_PORT,
    dataDir: env.SANDBOX_DATA_DIR,
    falKey: env.SANDBOX_FAL_KEY,
    elevenLabsKey: env.SANDBOX_ELEVENLABS_KEY,
    openAiKey: env.SANDBOX_OPENAI_KEY,
    chatKey: env.SANDBOX_CHAT_KEY,
    latencyMs: env.SANDBOX_LATENCY_MS,
    mediaSize: { tiny: env.SANDBOX_TINY_MEDIA },
    fsync: env.SANDBOX_FSYNC,
  }));

/** Provider sandbox in this process. */
export interface Sandbox {
  /**
   * Starts to listen, and resumes unfinished requests.
   * @returns the base URL
   */
  listen: () => Promise<string>;
  close: () => Promise<void>;
  /** Base URL without a trailing slash, once the sandbox listens. */
  readonly url: string;
}

/** Longer than the idle timeout of callers, so that the caller closes an idle connection first. */
const keepAliveTimeoutMs = 75_000;

/** Loads the sandbox's state. The sandbox does not listen yet. */
export async function createSandbox(options: z.infer<typeof sandboxOptions>): Promise<Sandbox> {
  let url = '';
  const faults = new FaultBook();
  const counters = createCounters();
  const fal = await createFal({
    ...options,
    apiKey: options.falKey,
    faults,
    counters,
    baseUrl: () => url,
  });
  const calls = await CallLog.open(options);
  const shared = { ...options, log: calls, faults, counters };
  const listener = createListener([
    ...fal.routes,
    ...elevenLabsRoutes({ ...shared, apiKey: options.elevenLabsKey }),
    ...openAiRoutes({ ...shared, apiKey: options.openAiKey }),
    ...chatRoutes({ apiKey: options.chatKey, faults, counters }),
    ...adminRoutes({ fal, calls, faults, counters, mediaSize: options.mediaSize }),
  ]);
  const server = createServer({ keepAliveTimeout: keepAliveTimeoutMs }, listener);

  return {
    get url() {
      return url;
    },
    listen: async () => {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      server.once('error', reject);
      server.listen(options.port, options.host, () => resolve());
      await promise;
      const address = server.address();
      assert(typeof address === 'object' && address !== null, 'the server has no port');
      url = `http://${options.host}:${address.port}`;
      fal.generator.resume();
      return url;
    },
    close: async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      server.close(() => resolve());
      server.closeAllConnections();
      await promise;
      await fal.close();
      await calls.close();
    },
  };
}
