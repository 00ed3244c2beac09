/** `studio admin stuck|unknown|reverify|…`: what operators do about jobs that hang and providers that fail. */
import type { Command } from 'commander';
import { z } from 'zod';
import { numeric, shortTime } from '../fields.ts';
import { list, table } from '../output.ts';
import { sessionOf } from '../session.ts';
import { addListing } from './admin-reads.ts';
import { at, write, writing } from './admin-writes.ts';

const finding = z.looseObject({
  callIndex: z.number(),
  provider: z.string(),
  verdict: z.string(),
  words: z.string(),
});
const settled = z.looseObject({
  jobId: z.string(),
  status: z.string(),
  billing: z.string(),
  errorCode: z.string().nullable(),
  findings: z.array(finding),
});

/** Adds the commands. */
export function addOperationCommands(admin: Command): void {
  addOutcomeLists(admin);
  addNotificationList(admin);
  addJobCommands(admin);
  addProviderCommands(admin);
  addProcessCommands(admin);
}

function addOutcomeLists(admin: Command): void {
  addListing({
    command: admin
      .command('stuck')
      .description('reservations open for too long, with the reason; oldest first')
      .option('--org <organizationId>', 'only of this organization')
      .option('--older-than-seconds <n>', 'open for longer than this (default 300)', numeric),
    path: () => '/stuck',
    row: z.looseObject({
      id: z.string(),
      kind: z.string(),
      type: z.string().nullable(),
      credits: z.number(),
      createdAt: z.string(),
      reasons: z.array(z.string()),
    }),
    cells: (line) => ({
      reservation: line.id,
      type: line.type ?? line.kind,
      credits: line.credits,
      created: shortTime(line.createdAt),
      why: line.reasons.join('; '),
    }),
  });
  addListing({
    command: admin
      .command('unknown')
      .description('jobs released without the provider’s word, newest first')
      .option('--succeeded <true|false>', 'only those that had succeeded after all'),
    path: () => '/unknown-outcomes',
    row: z.looseObject({
      jobId: z.string(),
      type: z.string(),
      errorCode: z.string(),
      credits: z.number(),
      releasedAt: z.string(),
      calls: z.array(
        z.looseObject({
          provider: z.string(),
          late: z.looseObject({ verdict: z.string() }).nullable(),
        }),
      ),
    }),
    cells: (line) => ({
      job: line.jobId,
      type: line.type,
      error: line.errorCode,
      credits: line.credits,
      released: shortTime(line.releasedAt),
      later: line.calls
        .map(({ provider, late }) => `${provider}: ${late?.verdict ?? 'not known'}`)
        .join('; '),
    }),
  });
}

function addNotificationList(admin: Command): void {
  addListing({
    command: admin
      .command('notifications')
      .description('kept notifications of providers, newest first')
      .option('--state <state>', 'received (told to nobody yet), delivered or late'),
    path: () => '/notifications',
    row: z.looseObject({
      jobId: z.string(),
      callIndex: z.number(),
      provider: z.string(),
      state: z.string(),
      deliveries: z.number(),
      receivedAt: z.string(),
    }),
    cells: (kept) => ({
      job: kept.jobId,
      call: kept.callIndex,
      provider: kept.provider,
      state: kept.state,
      sent: kept.deliveries,
      received: shortTime(kept.receivedAt),
    }),
  });
}

function settledText({ findings, ...job }: z.infer<typeof settled>, extra: object): string {
  const { jobId, status, billing, errorCode } = job;
  const state = list({ job: jobId, status, billing, error: errorCode, ...extra });
  const looks = findings.map(({ callIndex, provider, verdict, words }) => ({
    call: callIndex,
    provider,
    verdict,
    evidence: words,
  }));
  return looks.length === 0 ? state : `${state}\n${table(looks)}`;
}

function addJobCommands(admin: Command): void {
  writing(admin.command('reverify').argument('<jobId>'))
    .description('ask the provider for the calls of a job; a running workflow looks at once')
    .action(async (jobId: string, _options: object, command: Command) => {
      const { body, raw } = await write(command, `/jobs/${at(jobId)}/reverify`, {
        schema: z.looseObject({ data: settled.extend({ workflowTold: z.boolean() }) }),
      });
      const told = body.data.workflowTold ? 'told' : 'not running';
      sessionOf(command).output.show(raw, () => settledText(body.data, { workflow: told }));
    });
  writing(admin.command('resettle').argument('<jobId>'))
    .description('bring a job to its end whose workflow is gone, by what the provider says')
    .option(
      '--release',
      'release it also when the provider may still deliver and it cannot be taken up',
    )
    .action(async (jobId: string, options: { release?: boolean }, command: Command) => {
      const { body, raw } = await write(command, `/jobs/${at(jobId)}/resettle`, {
        schema: z.looseObject({ data: settled.extend({ decision: z.string() }) }),
        body: { release: options.release ?? false },
      });
      const { decision } = body.data;
      sessionOf(command).output.show(raw, () => settledText(body.data, { decision }));
    });
  writing(admin.command('renotify').argument('<jobId>'))
    .description('tell a job again of the notifications that were kept for it')
    .action(async (jobId: string, _options: object, command: Command) => {
      const { body, raw } = await write(command, `/jobs/${at(jobId)}/notifications/redeliver`, {
        schema: z.looseObject({
          data: z.array(z.looseObject({ callIndex: z.number(), state: z.string() })),
        }),
      });
      sessionOf(command).output.show(raw, () =>
        table(body.data.map(({ callIndex, state }) => ({ call: callIndex, state }))),
      );
    });
}

function addProviderCommands(admin: Command): void {
  const line = z.looseObject({
    provider: z.string(),
    paused: z.looseObject({ since: z.string(), actor: z.string(), reason: z.string() }).nullable(),
    waiting: z.number(),
    open: z.number(),
  });
  const cells = (each: z.infer<typeof line>) => ({
    provider: each.provider,
    paused:
      each.paused &&
      `${shortTime(each.paused.since)} by ${each.paused.actor}: ${each.paused.reason}`,
    waiting: each.waiting,
    open: each.open,
  });
  addListing({
    command: admin.command('providers').description('providers, and which of them are paused'),
    path: () => '/providers',
    row: line,
    cells,
  });
  for (const [verb, does] of [
    ['pause', 'send no new call to a provider; what it has taken is still delivered'],
    ['resume', 'send calls to a provider again'],
  ] as const) {
    writing(admin.command(verb).argument('<provider>'))
      .description(does)
      .action(async (provider: string, _options: object, command: Command) => {
        const path = `/providers/${at(provider)}/${verb}`;
        const { body, raw } = await write(command, path, { schema: z.looseObject({ data: line }) });
        sessionOf(command).output.show(raw, () => list(cells(body.data)));
      });
  }
}

function addProcessCommands(admin: Command): void {
  addListing({
    command: admin.command('processes').description('processes of the gateway that serve now'),
    path: () => '/processes',
    row: z.looseObject({
      id: z.string(),
      kind: z.string(),
      host: z.string(),
      pid: z.number(),
      buildId: z.string().nullable(),
      startedAt: z.string(),
      drainAskedAt: z.string().nullable(),
    }),
    cells: (process) => ({
      process: process.id,
      kind: process.kind,
      host: process.host,
      pid: process.pid,
      build: process.buildId,
      started: shortTime(process.startedAt),
      draining: shortTime(process.drainAskedAt),
    }),
  });
  writing(admin.command('drain').argument('<processId>'))
    .description('let a process take nothing new, finish what it has, and exit')
    .action(async (id: string, _options: object, command: Command) => {
      const schema = z.looseObject({ success: z.boolean() });
      const { raw } = await write(command, `/processes/${at(id)}/drain`, { schema });
      sessionOf(command).output.show(raw, () => `${id} drains\n`);
    });
}
