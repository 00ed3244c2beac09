/** `npm run record-histories`: runs each way a job can end and writes its history down. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type TestGateway } from '../harness/gateway.ts';
import { recordHistory } from '../harness/histories.ts';

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startGateway({
    sandboxEnv: { SANDBOX_TINY_MEDIA: '1' },
    env: { IMAGE_DEADLINE_MS: '6000', OUTCOME_WAIT_MS: '1500', CHECK_INTERVAL_MS: '500' },
  });
});
afterAll(() => gateway.close());

interface Scenario {
  /** `<workflow type>.<how it ended>` */
  name: string;
  path: string;
  body: Record<string, unknown>;
  status: string;
  cancel?: true;
}

const image = '/api/v1/studio/image/generate';
const scenarios: Scenario[] = [
  { name: 'imageGenerate.completed', path: image, body: { prompt: 'a tree' }, status: 'completed' },
  {
    name: 'imageGenerate.completed-several-calls',
    path: image,
    body: { prompt: 'a tree', numImages: 9 },
    status: 'completed',
  },
  {
    name: 'imageGenerate.completed-lost-webhook',
    path: image,
    body: { prompt: '[[no-webhook]] [[slow:1200ms]] a tree' },
    status: 'completed',
  },
  {
    name: 'imageGenerate.completed-adopted',
    path: image,
    body: { prompt: '[[reset-after-accept]] a tree' },
    status: 'completed',
  },
  {
    name: 'imageGenerate.completed-retried',
    path: image,
    body: { prompt: '[[submit:503x2]] a tree' },
    status: 'completed',
  },
  {
    name: 'imageGenerate.failed',
    path: image,
    body: { prompt: '[[fail-result:500]] a tree' },
    status: 'failed',
  },
  {
    name: 'imageGenerate.failed-rejected',
    path: image,
    body: { prompt: '[[submit:422]] a tree' },
    status: 'failed',
  },
  {
    name: 'imageGenerate.failed-deadline',
    path: image,
    body: { prompt: '[[slow:60s]] a tree' },
    status: 'failed',
  },
  {
    name: 'imageGenerate.failed-outcome-unknown',
    path: image,
    body: { prompt: '[[reset-after-accept]] [[no-webhook]] a tree' },
    status: 'failed',
  },
  {
    name: 'imageGenerate.canceled',
    path: image,
    body: { prompt: '[[slow:60s]] a tree' },
    status: 'canceled',
    cancel: true,
  },
];

describe('each way a job can end', () => {
  it.each(scenarios.map((scenario) => [scenario.name, scenario] as const))(
    '%s',
    async (name, scenario) => {
      const accepted = await gateway.call(scenario.path, {
        body: { ...scenario.body, async: true },
      });
      expect(accepted.status).toBe(202);
      const { jobId } = accepted.body.data;
      if (scenario.cancel) {
        await expect.poll(() => gateway.sandbox.submits({ jobId })).toHaveLength(1);
        await gateway.call(`/api/v1/studio/jobs/${jobId}/cancel`, { method: 'POST' });
      }
      const done = await gateway.untilDone(jobId);
      expect(done.body.data.status).toBe(scenario.status);
      const handle = gateway.api.client.workflow.getHandle(jobId);
      await handle.result().catch(() => {});
      // Recording is a decision of its own; an ordinary run only proves that each ending is reached.
      if (process.env['RECORD_HISTORIES'] === '1') await recordHistory(name, handle);
    },
  );
});
