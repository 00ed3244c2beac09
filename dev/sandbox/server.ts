/**
 * Provider sandbox: the protocols of real providers over HTTP, generated media, and faults on
 * request. Each provider is one folder. Like a real provider, the sandbox shares no code with the
 * gateway except `domain/`.
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
    /** Port; 0: any free port. */
    SANDBOX_PORT: z.coerce.number().int().min(0).max(65_535).default(4100),
    /** Directory of the log and the signing key. */
    SANDBOX_DATA_DIR: z.string().default('.data/sandbox'),
    /** Keys of fal's queue, ElevenLabs, OpenAI's images and both chat protocols. */
    SANDBOX_FAL_KEY: z.string().min(1).default('sandbox-fal-key'),
    SANDBOX_ELEVENLABS_KEY: z.string().min(1).default('sandbox-elevenlabs-key'),
    SANDBOX_OPENAI_KEY: z.string().min(1).default('sandbox-openai-key'),
    SANDBOX_CHAT_KEY: z.string().min(1).default('sandbox-chat-key'),
    /** Time to generate an image, in milliseconds. */
    SANDBOX_LATENCY_MS: z.coerce.number().min(0).default(300),
    /** Media are tiny (`MediaSize`) until a test changes it. */
    SANDBOX_TINY_MEDIA: flag('0'),
    /** False: a submit is acknowledged before it is on disk. */
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

/** Sandbox of a process. */
export interface Sandbox {
  /**
   * Starts to listen and resumes unfinished requests.
   * @returns the base URL
   */
  listen: () => Promise<string>;
  close: () => Promise<void>;
  /** Base URL without a trailing slash, once the sandbox listens. */
  readonly url: string;
}

/** Longer than the pools of callers keep a socket, so that the caller closes it first. */
const keepAliveTimeoutMs = 75_000;

/** Opens the sandbox's state, without listening yet. */
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
      assert(typeof address === 'object' && address !== null, 'a TCP server has a port');
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
