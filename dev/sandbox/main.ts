/** `node dev/sandbox/main.ts`: one provider sandbox, until it is told to stop or its parent is gone. */
import { z } from 'zod';
import { createSandbox } from './server.ts';

const environment = z
  .object({
    SANDBOX_HOST: z.string().default('127.0.0.1'),
    SANDBOX_PORT: z.coerce.number().int().min(0).max(65_535).default(4100),
    SANDBOX_DATA_DIR: z.string().default('.data/sandbox'),
    SANDBOX_FAL_KEY: z.string().min(1).default('sandbox-fal-key'),
    SANDBOX_ELEVENLABS_KEY: z.string().min(1).default('sandbox-elevenlabs-key'),
    SANDBOX_OPENAI_KEY: z.string().min(1).default('sandbox-openai-key'),
    SANDBOX_CHAT_KEY: z.string().min(1).default('sandbox-chat-key'),
    SANDBOX_LATENCY_MS: z.coerce.number().min(0).default(300),
    SANDBOX_TINY_MEDIA: z.enum(['0', '1']).default('0'),
    SANDBOX_FSYNC: z.enum(['0', '1']).default('1'),
  })
  .parse(process.env);

const sandbox = await createSandbox({
  host: environment.SANDBOX_HOST,
  port: environment.SANDBOX_PORT,
  dataDir: environment.SANDBOX_DATA_DIR,
  falKey: environment.SANDBOX_FAL_KEY,
  elevenLabsKey: environment.SANDBOX_ELEVENLABS_KEY,
  openAiKey: environment.SANDBOX_OPENAI_KEY,
  chatKey: environment.SANDBOX_CHAT_KEY,
  latencyMs: environment.SANDBOX_LATENCY_MS,
  tinyMedia: environment.SANDBOX_TINY_MEDIA === '1',
  fsync: environment.SANDBOX_FSYNC === '1',
});

let stopping = false;
async function stop(): Promise<void> {
  if (stopping) return;
  stopping = true;
  await sandbox.close();
  process.exit(0);
}
process.on('SIGTERM', () => void stop());
process.on('SIGINT', () => void stop());
process.on('disconnect', () => void stop());

const url = await sandbox.listen();
process.stdout.write(`${JSON.stringify({ type: 'ready', url, pid: process.pid })}\n`);
process.send?.({ type: 'ready', url });
