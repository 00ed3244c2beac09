/**
 * The provider sandbox: real providers' protocols over HTTP, made-up media, faults on request.
 * Each provider is one folder. The sandbox imports nothing of the gateway but `domain/`: it is the
 * outside world.
 */
import { createServer } from 'node:http';
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

/** How a sandbox runs. */
export interface SandboxOptions {
  host: string;
  /** 0 = a free port. */
  port: number;
  /** Where the log and the signing key are kept. */
  dataDir: string;
  /** The key that callers of the fal queue must send. */
  falKey: string;
  /** The key that callers of ElevenLabs must send. */
  elevenLabsKey: string;
  /** The key that callers of OpenAI's images must send. */
  openAiKey: string;
  /** The key of both chat protocols. */
  chatKey: string;
  /** Time to generate an image, in milliseconds. */
  latencyMs: number;
  /** Every picture is one cached 64×64 PNG. */
  tinyMedia: boolean;
  /** False: submits are acknowledged before they are on disk. */
  fsync: boolean;
}

/** A sandbox process's inside. */
export interface Sandbox {
  /** Starts to listen and picks up unfinished requests. @returns the base URL. */
  listen: () => Promise<string>;
  close: () => Promise<void>;
  /** Base URL without a slash at the end, once it listens. */
  readonly url: string;
}

/** Longer than any caller's pool keeps a socket: the caller closes first, no race. */
const keepAliveTimeoutMs = 75_000;

/** Opens the sandbox's state; it does not listen yet. */
export async function createSandbox(options: SandboxOptions): Promise<Sandbox> {
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
    ...adminRoutes({ fal, calls, faults, counters }),
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
