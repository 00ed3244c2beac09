/** `node dev/sandbox/main.ts`: runs a provider sandbox until a signal arrives or the parent process exits. */
import { createSandbox, sandboxOptions } from './server.ts';

const sandbox = await createSandbox(sandboxOptions.parse(process.env));

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
