/**
 * `npm run replay`: reports whether recorded jobs still replay, and the exact place of a failure.
 */
import { historyFromJSON, historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import { createLogger } from '../../platform/logger.ts';
import { installTestRuntime } from '../harness/runtime.ts';
import { loadWorkflowBundle } from '../../worker/bundle.ts';
import { findDivergence, recorderPath, replays } from '../../dev/replay/divergence.ts';
import { findScrubbedWorkflowId, scrubHistory } from '../../dev/replay/scrub.ts';
import { additionalStep, bundleChanged, type SourceChange } from '../harness/changed-workflows.ts';
import { useGateway } from '../harness/gateway.ts';
import { readHistories } from '../harness/histories.ts';
import { runProgram } from '../harness/programs.ts';

/** Runs the command as a separate process. */
async function replay(...args: string[]): Promise<{ status: number; out: string }> {
  const env = { TEMPORAL_ADDRESS: inject('temporalAddress') };
  const { status, stdout, stderr } = await runProgram('dev/replay/replay.ts', args, env);
  return { status, out: stdout + stderr };
}

describe('npm run replay', () => {
  const gateway = useGateway({ settled: 'last' });
  let jobId: string;
  let failedId: string;
  beforeAll(async () => {
    const start = async (prompt: string): Promise<string> => {
      const started = await gateway.startImage({ prompt: `[[slow:500ms]] ${prompt}` });
      await gateway.untilDone(started);
      await gateway
        .getWorkflow(started)
        .result()
        .catch(() => {});
      return started;
    };
    jobId = await start('a secret garden of olga@example.com');
    failedId = await start('[[fail:422]] a barren garden');
  });

  it('replays a job by id, a history file, and all jobs that match a filter', async () => {
    const own = `OrganizationId = '${gateway.caller.organizationId}'`;
    await expect.poll(async () => (await gateway.api.client.workflow.count(own)).count).toBe(2);
    const makeReport = (count: number) => ({ status: 0, out: `${count} replayed, 0 diverge\n` });
    expect(await replay(jobId)).toEqual(makeReport(1));
    expect(await replay('--query', own)).toEqual(makeReport(2));
    expect(await replay('test/histories/imageGenerate.failed.json')).toEqual(makeReport(1));
    const unknown = 'replay: Temporal has no workflow with id job_gone\n';
    expect(await replay('job_gone')).toEqual({ status: 2, out: unknown });
    expect(await replay('no-such-history.json')).toMatchObject({ status: 2 });
  });

  it('saves a history without private data, and the saved history still replays', async () => {
    for (const workflowId of [jobId, failedId]) {
      const history = await gateway.getWorkflow(workflowId).fetchHistory();
      const json = JSON.parse(historyToJSON(history)) as unknown;
      const scrubbed = scrubHistory(json);
      const decodeData = (value: unknown): string =>
        JSON.stringify(value, (key, inner: unknown) =>
          key === 'data' && typeof inner === 'string'
            ? Buffer.from(inner, 'base64').toString('utf8')
            : inner,
        );
      const privateTexts = [workflowId, gateway.caller.organizationId, gateway.caller.keyId];
      for (const text of [...privateTexts, 'garden', `${process.pid}@`]) {
        expect(decodeData(json)).toContain(text);
        expect(decodeData(scrubbed)).not.toContain(text);
      }
      expect(decodeData(scrubbed)).not.toContain('example.com');
      const id = findScrubbedWorkflowId(scrubbed) ?? '';
      expect(id).toMatch(/^job_0+[0-9a-f]+$/);
      const bundle = await loadWorkflowBundle();
      expect(await replays(bundle, { workflowId: id, history: historyFromJSON(scrubbed) })).toBe(
        true,
      );
    }
  });
});

describe('a change of the job workflow', () => {
  beforeAll(() => installTestRuntime(createLogger('replay', 'silent')));
  const insertBefore = (line: string, code: string): SourceChange => ({
    file: 'studio-job.ts',
    from: line,
    to: `${code}\n${line}`,
  });

  it.each([
    [
      'that comes before the reservation',
      insertBefore('    const reserveOutcome = await runStep(', additionalStep),
      { expected: 'local activity reserve', got: 'local activity markVerifying' },
    ],
    [
      'that comes before the charge',
      insertBefore('  return charge(job, outputs);', additionalStep),
      { expected: 'local activity charge', got: 'local activity markVerifying' },
    ],
    [
      'that throws',
      insertBefore('  return charge(job, outputs);', `  throw new TypeError('planted');`),
      { expected: 'local activity charge', got: 'nothing', message: 'planted' },
    ],
  ])('%s fails the replay, and the message names the place', async (_name, change, expected) => {
    const bundle = await bundleChanged([change], [recorderPath]);
    const run = (await readHistories()).find(({ name }) => name === 'imageGenerate.completed');
    if (!run) throw new Error('the history is recorded');
    expect(await replays(bundle, run)).toBe(false);
    const found = await findDivergence(bundle, run);
    expect(found).toMatchObject(expected);
    expect(found?.at[0]).toMatch(/^workflows\/studio-job\.ts:\d+:\d+$/);
    const event = run.history.events?.find(({ eventId }) => Number(eventId) === found?.eventId);
    expect(event?.markerRecordedEventAttributes).toBeTruthy();
  });
});
