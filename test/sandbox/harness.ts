/** Starts a sandbox process, and sends the requests that most tests need. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { until } from '../harness/until.ts';

const main = fileURLToPath(new URL('../../dev/sandbox/main.ts', import.meta.url));

/** The key the sandboxes of these tests ask for. */
export const falKey = 'test-key';

/** A file that was made, as fal describes it. */
export interface MadeFile {
  url: string;
  content_type: string;
  file_size: number;
  /** Absent where fal gives a plain File: topaz. */
  width?: number;
  height?: number;
}

/**
 * What is in one or the other body of fal's queue and of its webhooks. Nothing checks it: a test reads
 * what it expects, and fails on a body without it.
 */
export interface QueueBody {
  status: string;
  request_id: string;
  status_url: string;
  response_url: string;
  cancel_url: string;
  images: [MadeFile, ...MadeFile[]];
  image: MadeFile;
  video: MadeFile;
}

/** A JSON answer. */
export interface Answer<Body = QueueBody> {
  status: number;
  headers: Headers;
  body: Body;
}

interface CallInit extends RequestInit {
  headers?: Record<string, string>;
}

/** A running sandbox process. */
export interface SandboxProcess {
  url: string;
  queue: string;
  child: ChildProcess;
  dataDir: string;
  call: <Body = QueueBody>(path: string, init?: CallInit) => Promise<Answer<Body>>;
  submit: (endpoint: string, input: unknown, webhookUrl?: string) => Promise<Answer>;
  /** Polls until COMPLETED and fetches the result. */
  finish: (submitted: Answer) => Promise<{ status: Answer; result: Answer }>;
  kill: (signal: NodeJS.Signals) => Promise<void>;
}

async function readAnswer<Body>(response: Response): Promise<Answer<Body>> {
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json') && text !== '';
  const body: unknown = isJson ? JSON.parse(text) : text;
  return { status: response.status, headers: response.headers, body: body as Body };
}

/** Starts a sandbox on a free port (or the given one) with fast generations. */
export async function startSandbox(environment: NodeJS.ProcessEnv = {}): Promise<SandboxProcess> {
  const dataDir = environment['SANDBOX_DATA_DIR'] ?? (await mkdtemp(join(tmpdir(), 'sandbox-')));
  const child = fork(main, {
    env: {
      ...process.env,
      SANDBOX_PORT: '0',
      SANDBOX_FAL_KEY: falKey,
      SANDBOX_LATENCY_MS: '40',
      SANDBOX_DATA_DIR: dataDir,
      ...environment,
    },
    execArgv: [],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const [ready] = await once(child, 'message');
  const url = String(ready.url);
  const call = async <Body = QueueBody>(path: string, init: CallInit = {}) => {
    const headers = { Authorization: `Key ${falKey}`, ...init.headers };
    return readAnswer<Body>(
      await fetch(path.startsWith('http') ? path : url + path, { ...init, headers }),
    );
  };
  return {
    url,
    queue: `${url}/fal/queue`,
    child,
    dataDir,
    call,
    submit: async (endpoint, input, webhookUrl) => {
      const query = webhookUrl ? `?fal_webhook=${encodeURIComponent(webhookUrl)}` : '';
      const init = { method: 'POST', body: JSON.stringify(input) };
      return call(`/fal/queue/${endpoint}${query}`, init);
    },
    finish: async (submitted) => {
      const statusUrl = submitted.body.status_url;
      const status = await until(async () => {
        const answer = await call(statusUrl);
        return answer.body.status === 'COMPLETED' ? answer : undefined;
      });
      return { status, result: await call(submitted.body.response_url) };
    },
    kill: async (signal) => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.kill(signal);
      await exited;
    },
  };
}

/** Stops a sandbox and removes its directory. */
export async function stopSandbox(sandbox: SandboxProcess): Promise<void> {
  await sandbox.kill('SIGTERM');
  await rm(sandbox.dataDir, { recursive: true, force: true });
}
