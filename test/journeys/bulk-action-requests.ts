/** Starts and reads bulk actions of operators, and the jobs on which they act. */
import { expect } from 'vitest';
import { operatorAction, type TestCaller, type TestGateway } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';

export interface BulkActionProgress {
  bulkActionId: string;
  status: string;
  jobs: number;
  applicable: number;
  credits: number;
  waiting: number;
  done: number;
  rejected: number;
  rejections: { jobId: string; error: { code: string; message: string } }[];
}
export interface BulkActionBody {
  data: BulkActionProgress;
  error: string;
  details: { path: string; message: string }[];
}

/** Returns the requests of a test file to the bulk actions of its gateway. */
export function useBulkActions(gateway: TestGateway) {
  const path = '/api/admin/v1/bulk-actions';
  const send = (body: object, headers: Record<string, string> = {}) =>
    gateway.call<BulkActionBody>(path, {
      key: gateway.config.ADMIN_API_KEY,
      headers,
      body: { ...operatorAction, ...body },
    });
  async function start(body: object): Promise<string> {
    const answer = await send({ dryRun: false, ...body });
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
    return answer.body.data.bulkActionId;
  }
  const read = async (id: string) =>
    (await gateway.admin<BulkActionBody>(`/bulk-actions/${id}`)).body.data;
  const untilEnded = (id: string) =>
    until(async () => {
      const state = await read(id);
      return state.status === 'running' ? null : state;
    });
  const run = async (body: object) => untilEnded(await start(body));
  const actionsOn = (subject: string) =>
    gateway.database.query<{ action: string; actor: string; reason: string }>(
      `SELECT action, actor, reason, details->>'bulkActionId' AS "bulkActionId" FROM admin_action
       WHERE subject = $1 ORDER BY id`,
      [subject],
    );

  /** Starts jobs of a new organization, on which the provider works until they are canceled. */
  async function startJobs(count: number, prompt = '[[slow:900s]] a heron') {
    const caller = await gateway.newCaller({ credits: 1000 });
    const jobIds = await Promise.all(
      Array.from({ length: count }, () => gateway.startImage({ prompt }, caller.key)),
    );
    return { caller, jobIds, filter: { organizationId: caller.organizationId } };
  }
  const finish = (jobIds: string[], { key }: TestCaller) =>
    Promise.all(jobIds.map((jobId) => gateway.untilDone(jobId, key)));
  return { send, start, read, untilEnded, run, actionsOn, startJobs, finish };
}
