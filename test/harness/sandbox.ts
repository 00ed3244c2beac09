/** Starts the provider sandbox as a separate process, and reads its log. */
import { fork, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { during } from './during.ts';
import { newFolder } from './folders.ts';
import { sandboxedProviders } from './variables.ts';

const script = fileURLToPath(new URL('../../dev/sandbox/main.ts', import.meta.url));

/** The keys that every sandbox of the tests accepts. */
const keys = {
  falKey: 'sandbox-fal-key-of-tests',
  chatKey: 'sandbox-chat-key-of-tests',
  openaiKey: 'sandbox-openai-key-of-tests',
  elevenlabsKey: 'sandbox-elevenlabs-key-of-tests',
};

/** Settings of every sandbox of the tests. */
export const sandboxSettings = {
  SANDBOX_FAL_KEY: keys.falKey,
  SANDBOX_CHAT_KEY: keys.chatKey,
  SANDBOX_OPENAI_KEY: keys.openaiKey,
  SANDBOX_ELEVENLABS_KEY: keys.elevenlabsKey,
};

/** Makes the settings of a gateway that do not depend on its addresses: secrets, rate limits, and the providers of a sandbox. */
export const makeSettings = (sandboxUrl: string): Record<string, string> => ({
  DATABASE_POOL_MAX: '8',
  STORAGE_SECRET: newSecret(),
  KEY_PEPPER: newSecret(),
  WEBHOOK_SECRET: newSecret(),
  WEBHOOK_SIGNING_SECRET: newSecret(),
  ADMIN_API_KEY: newSecret(),
  FAL_KEY: keys.falKey,
  OPENAI_IMAGES_API_KEY: keys.openaiKey,
  ELEVENLABS_API_KEY: keys.elevenlabsKey,
  ...sandboxedProviders(sandboxUrl),
  SANDBOX_CHAT_OPENAI_URL: `${sandboxUrl}/chat-openai/v1`,
  SANDBOX_CHAT_ANTHROPIC_URL: `${sandboxUrl}/chat-anthropic`,
  SANDBOX_CHAT_KEY: keys.chatKey,
  RATE_LIMIT_PER_MINUTE: '100000000',
  POLL_RATE_LIMIT_PER_MINUTE: '100000000',
  FIRST_CHECK_MAX_MS: '1000',
  BULK_CREDIT_CHECK_MS: '500',
});

/** Makes a random secret. */
export const newSecret = (): string => randomBytes(32).toString('base64url');

/** A submit that the sandbox accepted, from the sandbox’s log. */
export interface AcceptedSubmit {
  requestId: string;
  endpoint: string;
  body: Record<string, unknown>;
  webhookUrl: string;
}

/** A running sandbox. */
export type TestSandbox = Awaited<ReturnType<typeof startSandbox>>;

interface SandboxOptions {
  dataDir: string;
  /** Duration of an image request, milliseconds. */
  latencyMs?: number;
  env?: Record<string, string>;
}

/** Returns a sandbox for the tests of a file, filled in before the first test. */
export function useSandbox(env: Record<string, string> = {}): TestSandbox {
  return during(async () => {
    const sandbox = await startSandbox({ dataDir: newFolder(), latencyMs: 40, env });
    return { ...sandbox, close: () => sandbox.stop() };
  });
}

/** Starts a sandbox on a free port. */
export async function startSandbox(options: SandboxOptions) {
  const child = fork(script, {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    env: {
      ...process.env,
      SANDBOX_PORT: '0',
      SANDBOX_DATA_DIR: options.dataDir,
      ...sandboxSettings,
      SANDBOX_LATENCY_MS: String(options.latencyMs ?? 100),
      SANDBOX_FSYNC: '0',
      ...options.env,
    },
  });
  const url = await awaitUrl(child);
  const request = async (path: string, init?: RequestInit): Promise<Response> => {
    const answer = await fetch(`${url}/_sandbox/${path}`, init);
    if (!answer.ok) throw new Error(`sandbox: ${path} answered ${answer.status}`);
    return answer;
  };
  const post = (path: string, body: unknown, method = 'POST'): Promise<Response> =>
    request(path, {
      method,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  /** Returns the texts of the chat requests that contain a text, newest last. */
  async function chatTexts(match: string): Promise<string[]> {
    const answer = await request(`chat-requests?match=${encodeURIComponent(match)}`);
    const requests = (await answer.json()) as { text: string }[];
    return requests.map(({ text }) => text);
  }
  return {
    url,
    ...keys,
    /** Returns the submits that the sandbox accepted for a job, or whose prompt contains a text. */
    async submits(query: { jobId?: string; match?: string }): Promise<AcceptedSubmit[]> {
      const answer = await request(`submits?${new URLSearchParams(query).toString()}`);
      return (await answer.json()) as AcceptedSubmit[];
    },
    /** Returns the bodies of the chat requests that contain a text, newest last. */
    chatRequests: async (match: string): Promise<Record<string, unknown>[]> =>
      (await chatTexts(match)).map((text) => JSON.parse(text) as Record<string, unknown>),
    chatTexts,
    counters: async () => (await (await request('counters')).json()) as Record<string, number>,
    /** Injects faults (the grammar of dev/sandbox/faults.ts) into matching requests. */
    inject: async (fault: { match?: string; faults: string; times?: number }): Promise<void> =>
      void (await post('faults', fault)),
    clearFaults: async (): Promise<void> => void (await request('faults', { method: 'DELETE' })),
    /** Makes all further media tiny, or as requested, which needs more CPU. */
    resizeMedia: async (size: { tiny: boolean }): Promise<void> =>
      void (await post('media-size', size, 'PUT')),
    /** Sends the webhook of a request again, optionally forged; returns the response of the gateway. */
    async resend(requestId: string, changes: object): Promise<{ status: number }> {
      const answer = await post(`webhooks/${requestId}`, changes);
      return (await answer.json()) as { status: number };
    },
    async stop(): Promise<void> {
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

async function awaitUrl(child: ChildProcess): Promise<string> {
  const [message] = (await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(() => {
      throw new Error('the sandbox did not start');
    }),
  ])) as [{ url: string }];
  return message.url;
}
