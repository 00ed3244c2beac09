/** `npm run temporal`: Temporal’s own CLI with the configured server. */
import { expect, inject, it } from 'vitest';
import { runProgram } from '../../harness/programs.ts';

it('npm run temporal runs the CLI against the configured server, and returns its exit code', async () => {
  const temporal = (line: string) =>
    runProgram('dev/stack/temporal-command.ts', line.split(' '), {
      TEMPORAL_ADDRESS: inject('temporalAddress'),
    });
  const health = await temporal('operator cluster health');
  expect(health).toMatchObject({ status: 0, stdout: expect.stringContaining('SERVING') });
  const { status, stdout, stderr } = await temporal('workflow describe -w job_0');
  expect(status).toBe(1);
  expect(stdout + stderr).toContain('not found');
});
