/**
 * Runbooks for problems of workflow code, Postgres and Temporal: each test causes the problem,
 * checks its symptom and its alerts, and solves it with the commands of the page.
 */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { shortChat, states } from '../faults/calls.ts';
import { additionalStep } from '../harness/changed-workflows.ts';
import { commandPollMs, startRehearsal, studioPath, type Rehearsal } from './rehearsal.ts';

const project = fileURLToPath(new URL('../../', import.meta.url));
/** Folder of another build, below the project, so that it finds the packages. */
const build = join(project, '.cache', `build-${randomUUID().slice(0, 8)}`);

let gateway: Rehearsal;
beforeAll(async () => {
  [gateway] = await Promise.all([
    startRehearsal({
      FIRST_CHECK_MAX_MS: '600000',
      // Time for an operator to save a job before the sweeper releases it.
      RESERVATION_TTL_MS: '20000',
      LOG_LEVEL: 'info',
    }),
    makeBuild(),
  ]);
});
afterAll(async () => {
  await gateway.stack.close();
  await rm(build, { recursive: true, force: true });
});

/** Creates a build with an additional step in the workflow of jobs, and without `patched`. */
async function makeBuild(): Promise<void> {
  await mkdir(build, { recursive: true });
  const others = new Set(['node_modules', 'test', 'docs']);
  for (const name of await readdir(project)) {
    if (name.startsWith('.') || others.has(name)) continue;
    await cp(join(project, name), join(build, name), { recursive: true });
  }
  await symlink(join(project, 'node_modules'), join(build, 'node_modules'));
  const file = join(build, 'workflows', 'studio-job.ts');
  const source = await readFile(file, 'utf8');
  const place = '  const outputs = await runCalls(job, calls);';
  expect(source).toContain(place);
  await writeFile(file, source.replace(place, `  ${additionalStep}\n${place}`));
}

/** Starts a job that waits for a notification of its provider, which `notify` sends. */
const startWaiting = async (prompt: string): Promise<string> => {
  const jobId = await gateway.start(`[[no-webhook]] [[slow:300ms]] ${prompt}`, 'video');
  await gateway.untilAccepted(jobId);
  return jobId;
};

it('replay-failure.md: jobs from before the deployment continue once the old build runs again', async () => {
  const { stack, notify } = gateway;
  const [before, still] = [await startWaiting('a crane before'), await startWaiting('another one')];
  // The operator acts before the sweeper resets the jobs.
  stack.configure({ SWEEP_INTERVAL_MS: '3600000' });
  await gateway.restart('worker', build);
  const since = await gateway.scrape();
  expect(await notify(before)).toBe(200);
  await gateway.follow('replay-failure', async (page) => {
    await gateway.untilFiring(since, 'WorkflowTasksFail');
    expect(stack.readLog('worker')).toMatch(/Nondeterminism error.*Failing workflow task/);
    // New jobs work.
    await gateway.untilState(await gateway.start('a crane of the new build'), states.paid);
    const fromNewBuild = await startWaiting('a crane of the bad build');
    const replay = 'npm run replay -- --since';
    const report = await page.run(replay, { status: 1, build });
    expect(report).toMatch(
      new RegExp(`${before} videoGenerate: diverges\\n.*\\n.*expected.*\\n.*got.*markVerifying`),
    );
    expect(report).toMatch(/at +workflows\/studio-job\.ts:\d+:\d+/);
    expect(report).not.toContain(fromNewBuild);
    await expect
      .poll(() => page.run('temporal workflow list'), { interval: commandPollMs })
      .toContain(before);
    expect(await gateway.readState(before)).toMatchObject({ entries: ['reserve'] });

    // The sweeper does not settle the job that the operator terminates, however long that takes.
    await gateway.restart('worker');
    await gateway.untilState(before, states.paid);
    expect(await page.run(replay, { status: 1 })).toContain(`${fromNewBuild} videoGenerate`);
    const put = { 'job_…': fromNewBuild };
    await page.run('temporal workflow reset', { put });
    await page.run('temporal workflow terminate', { put });
    const settled = await page.admin('resettle', put);
    expect(settled).toContain('taken_up');
    const running = 'npm run replay -- --query';
    await expect
      .poll(() => page.run(running), { interval: commandPollMs })
      .toMatch(/^[1-9]\d* replayed, 0 diverge\n$/);
    await notify(still);
    await notify(fromNewBuild);
    for (const jobId of [still, fromNewBuild]) await gateway.untilState(jobId, states.paid);
    for (const jobId of [before, fromNewBuild]) expect(await gateway.countAccepted(jobId)).toBe(1);
  });
  stack.configure({ SWEEP_INTERVAL_MS: '500' });
  await gateway.restart('worker');
  await gateway.untilQuiet(await gateway.scrape(), 'WorkflowTasksFail');
});

it('postgres-restored.md: jobs that ended since the backup are charged once, and lost grants are repeated', async () => {
  const { stack, request, notify } = gateway;
  const org = { 'org_…': stack.caller.organizationId };
  const [saved, open] = [
    await startWaiting('a beaver to be saved'),
    await startWaiting('a beaver'),
  ];
  const [suspended, revoked] = [await stack.newCaller(10), await stack.newCaller(10)];
  /** Two changes since the backup, which are repeated after the restore. */
  async function suspendAndRevoke(): Promise<void> {
    await gateway.requestAdmin(`/organizations/${suspended.organizationId}/suspend`, {});
    await gateway.requestAdmin(`/keys/${revoked.keyId}/revoke`, {});
  }
  const readStatus = async ({ key }: { key: string }) =>
    (await request('/api/v1/usage', { key })).status;
  await stack.copyData('postgres', 'take');
  const restoredTo = new Date().toISOString();
  await expect.poll(() => request('/readyz')).toMatchObject({ status: 200 });
  await notify(saved);
  await gateway.untilState(saved, states.paid);
  const forgotten = await gateway.start('a beaver since');
  await gateway.untilState(forgotten, states.paid);
  const newcomer = await stack.newCaller(10);
  await suspendAndRevoke();
  await gateway.openPage('postgres-restored').then((page) => page.admin('grant', org));

  await gateway.follow('postgres-restored', async (page) => {
    for (const part of ['api', 'worker'] as const) expect(await stack.end(part)).toBe(0);
    await stack.copyData('postgres', 'put back');
    const [kept] = await page.sql<{ id: string }>('UPDATE reservation');
    expect(kept?.map(({ id }) => id).toSorted()).toEqual([saved, open].toSorted());
    await Promise.all([stack.start('api'), stack.start('worker')]);
    // The table of the page.
    expect(await gateway.readState(saved)).toMatchObject({ entries: ['reserve'] });
    expect((await request(`/api/v1/studio/jobs/${forgotten}`)).status).toBe(404);
    expect(await readStatus(newcomer)).toBe(401);
    for (const caller of [suspended, revoked]) expect(await readStatus(caller)).toBe(200);
    const log = stack.readLog('api');
    expect(log).toMatch(/\/suspend".*request\.answered/);
    expect(log).toMatch(/\/revoke".*request\.answered/);
    await suspendAndRevoke();
    await expect.poll(() => readStatus(suspended)).toBe(403);
    await expect.poll(() => readStatus(revoked)).toBe(401);

    const put = { '2026-11-21T12:20:52Z': restoredTo };
    const listed = await page.run('temporal workflow list', { put });
    expect(listed).toContain(forgotten);
    expect(listed).not.toContain(open);

    const ended = 'workflow ended \\(COMPLETED\\) without settling the reservation';
    expect(await page.admin('stuck')).toMatch(new RegExp(`${saved} .*${ended}`));
    await page.admin('resettle', { 'job_…': saved });
    await gateway.untilReverified(page, saved);
    expect(await gateway.countAccepted(saved)).toBe(1);
    await notify(open);
    await gateway.untilState(open, states.paid);
    expect(await page.admin('grant', org)).toMatch(/granted +100/);
    expect(await page.admin('grant', org)).toMatch(/already applied/);
    const { organizationId } = stack.caller;
    const folder = join(stack.directory, 'storage/objects', organizationId, forgotten);
    expect(existsSync(folder)).toBe(true);
    await rm(folder, { recursive: true });
    await page.untilAdmin('stuck', /^\(none\)\n$/);
  });
});

it('temporal-lost.md: accepted jobs are saved, other jobs are released, and new jobs run', async () => {
  const { stack, request, scrape } = gateway;
  const since = await scrape();
  const [saved, left] = [
    await startWaiting('a salmon to be saved'),
    await startWaiting('a salmon'),
  ];
  const notified = await gateway.start('[[slow:900s]] a salmon with a notification');
  await gateway.untilAccepted(notified);
  await stack.kill('temporal');
  await gateway.mendProvider();
  const notification = 'SELECT state FROM provider_notification WHERE job_id = $1';
  await expect.poll(() => stack.query(notification, [notified])).toEqual([{ state: 'received' }]);
  expect((await request('/api/v1/chat', { body: shortChat })).status).toBe(200);
  expect(
    await request(studioPath, { body: { prompt: 'a salmon without Temporal' } }),
  ).toMatchObject({
    status: 503,
    body: { message: expect.stringContaining('The job could not be started.') },
  });
  await rm(join(stack.directory, 'temporal'), { recursive: true });
  await stack.start('temporal');

  await gateway.follow('temporal-lost', async (page) => {
    const gone = 'workflow missing: Temporal has no workflow with this id';
    const why = new RegExp(`${saved} .*${gone}.*call 1 was submitted to fal`);
    await page.untilAdmin('stuck --older-than-seconds 0', why);
    await page.untilAdmin('resettle', /taken_up/, { 'job_…': saved });
    await gateway.untilReverified(page, saved);
    expect(await gateway.countAccepted(saved)).toBe(1);
    for (const jobId of [left, notified]) {
      await gateway.untilState(jobId, states.failed('JOB_LOST'));
    }
    await gateway.untilFiring(since, 'JobsLost');
    expect(stack.readLog('worker')).toContain('an open reservation has no running workflow');
    const next = await gateway.start('a salmon after the loss');
    await gateway.untilState(next, states.paid);
    expect(await page.admin('stuck --older-than-seconds 240')).toBe('(none)\n');
    const lateNotification = new RegExp(`${notified} .*fal: \\w+, late notification: \\d{4}`);
    await page.untilAdmin('unknown', lateNotification);
  });
  const healed = await scrape();
  await gateway.untilQuiet(healed, 'LedgerBroken', 'JobsLost');
});
