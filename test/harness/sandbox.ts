/** Starts the provider sandbox as a separate process, and reads its log. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { during } from './during.ts';
import { newFolder } from './folders.ts';

const script = fileURLToPath(new URL('../../dev/sandbox/main.ts', import.meta.url));

/** A submit that the sandbox accepted, from the sandbox’s log. */
export interface AcceptedSubmit {
  requestId: string;
  endpoint: string;
  body: Record<string, unknown>;
  webhookUrl: string;
}

/** A running sandbox. */
export interface TestSandbox {
  url: string;
  falKey: string;
  chatKey: string;
  openaiKey: string;
  elevenlabsKey: string;
  /** Returns the submits that the sandbox accepted for a job, or whose prompt contains a text. */
  submits: (query: { jobId?: string; match?: string }) => Promise<AcceptedSubmit[]>;
  /** Returns the bodies of the chat requests that contain a text, newest last. */
  chatRequests: (match: string) => Promise<Record<string, unknown>[]>;
  counters: () => Promise<Record<string, number>>;
  /** Injects faults (the grammar of dev/sandbox/faults.ts) into matching requests. */
  inject: (fault: { match?: string; faults: string; times?: number }) => Promise<void>;
  clearFaults: () => Promise<void>;
  /** Makes all further media tiny, or as requested, which needs more CPU. */
  resizeMedia: (size: { tiny: boolean }) => Promise<void>;
  /**
   * Sends the webhook of a request again, optionally forged; returns the response of the gateway.
   */
  resend: (requestId: string, options: Record<string, unknown>) => Promise<{ status: number }>;
  stop: () => Promise<void>;
}

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
    return { ...sandbox, close: sandbox.stop };
  });
}

/** Starts a sandbox on a free port. */
export async function startSandbox(options: SandboxOptions): Promise<TestSandbox> {
  const falKey = 'sandbox-fal-key-of-tests';
  const chatKey = 'sandbox-chat-key-of-tests';
  const openaiKey = 'sandbox-openai-key-of-tests';
  const elevenlabsKey = 'sandbox-elevenlabs-key-of-tests';
  const child = fork(script, {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    env: {
      ...process.env,
      SANDBOX_PORT: '0',
      SANDBOX_DATA_DIR: options.dataDir,
      SANDBOX_FAL_KEY: falKey,
      SANDBOX_CHAT_KEY: chatKey,
      SANDBOX_OPENAI_KEY: openaiKey,
      SANDBOX_ELEVENLABS_KEY: elevenlabsKey,
      SANDBOX_LATENCY_MS: String(options.latencyMs ?? 100),
      SANDBOX_FSYNC: '0',
      ...options.env,
    },
  });
  const url = await readyUrl(child);
  const ask = async (path: string, init?: RequestInit): Promise<Response> => {
    const answer = await fetch(`${url}/_sandbox/${path}`, init);
    if (!answer.ok) throw new Error(`sandbox: ${path} answered ${answer.status}`);
    return answer;
  };
  const post = (path: string, body: unknown, method = 'POST'): Promise<Response> =>
    ask(path, {
      method,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  return {
    url,
    falKey,
    chatKey,
    openaiKey,
    elevenlabsKey,
    async submits(query) {
      const answer = await ask(`submits?${new URLSearchParams(query).toString()}`);
      return (await answer.json()) as AcceptedSubmit[];
    },
    async chatRequests(match) {
      const answer = await ask(`chat-requests?match=${encodeURIComponent(match)}`);
      const requests = (await answer.json()) as { body: Record<string, unknown> }[];
      return requests.map(({ body }) => body);
    },
    counters: async () => (await (await ask('counters')).json()) as Record<string, number>,
    inject: async (fault) => void (await post('faults', fault)),
    clearFaults: async () => void (await ask('faults', { method: 'DELETE' })),
    resizeMedia: async (size) => void (await post('media-size', size, 'PUT')),
    async resend(requestId, changes) {
      const answer = await post(`webhooks/${requestId}`, changes);
      return (await answer.json()) as { status: number };
    },
    async stop() {
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

async function readyUrl(child: ChildProcess): Promise<string> {
  const [message] = (await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(() => {
      throw new Error('the sandbox did not start');
    }),
  ])) as [{ url: string }];
  return message.url;
}
