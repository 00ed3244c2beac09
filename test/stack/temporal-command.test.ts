/** `npm run temporal`: Temporal’s own CLI with the configured server. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, inject, it } from 'vitest';

const root = fileURLToPath(new URL('../../', import.meta.url));

function temporal(args: string[], env: Record<string, string>) {
  return new Promise<{ status: number; out: string }>((resolve) => {
    const script = `${root}dev/stack/temporal-command.ts`;
    const options = { cwd: root, env: { PATH: process.env['PATH'], ...env } };
    execFile(process.execPath, [script, ...args], options, (error, stdout, stderr) => {
      const status = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      resolve({ status, out: stdout + stderr });
    });
  });
}

describe('npm run temporal', () => {
  it('runs the CLI against the configured server, and returns its exit code', async () => {
    const env = { TEMPORAL_ADDRESS: inject('temporalAddress') };
    const health = await temporal(['operator', 'cluster', 'health'], env);
    expect(health).toEqual({ status: 0, out: expect.stringContaining('SERVING') });
    const missing = await temporal(['workflow', 'describe', '-w', 'job_0'], env);
    expect(missing.status).toBe(1);
    expect(missing.out).toContain('not found');
  });

  it('names the invalid setting', async () => {
    const wrong = await temporal(['workflow', 'list'], { TEMPORAL_ADDRESS: 'nowhere' });
    expect(wrong).toEqual({
      status: 2,
      out: 'temporal: invalid settings: TEMPORAL_ADDRESS\n',
    });
  });
});
