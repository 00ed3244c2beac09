/** `studio admin bulk-action start|show|list|cancel`: an operator's action on many jobs. */
import type { Command } from 'commander';
import { addAction } from '../actions.ts';
import { collectValue, omitUndefined, parseNumber } from '../fields.ts';
import { addListing } from '../listings.ts';
import {
  formatList,
  formatTable,
  readList,
  toCells,
  type Columns,
  type Fields,
} from '../output.ts';
import { addOperatorAction } from './operator-action.ts';

const path = '/bulk-actions';
const columns: Columns = {
  'bulk action': 'bulkActionId',
  action: 'action',
  status: 'status',
  jobs: 'jobs',
  waiting: 'waiting',
  done: 'done',
  rejected: 'rejected',
  credits: 'credits',
  actor: 'actor',
  reason: 'reason',
  created: 'createdAt',
};
const previewColumns: Columns = {
  action: 'action',
  jobs: 'jobs',
  'can be changed': 'applicable',
  credits: 'credits',
  'first jobs': 'sample',
};
const rejectionColumns: Columns = { job: 'jobId', error: 'error.code', message: 'error.message' };

function formatBulkAction(data: Fields): string {
  if (data['dryRun'] === true)
    return `${formatList(toCells(data, previewColumns))}Nothing was changed. Add --run to start the action.\n`;
  const rejections = readList(data, 'rejections').map((row) => toCells(row, rejectionColumns));
  const summary = formatList(toCells(data, columns));
  return rejections.length === 0 ? summary : `${summary}\n${formatTable(rejections)}`;
}

interface StartOptions extends Record<string, unknown> {
  run?: boolean;
  release?: boolean;
  max?: number;
  perSecond?: number;
}

/** Adds the commands for bulk actions to `studio admin`. */
export function addBulkActionCommands(admin: Command): void {
  const group = admin
    .command('bulk-action')
    .description('cancel, reverify, resettle, redeliver or refund many jobs');
  const start = group
    .command('start <action>')
    .description('count the chosen jobs and their credits; with --run, act on them')
    .option('--run', 'start the action; otherwise nothing is changed')
    .option('--job <jobId>', 'only this job (repeatable)', collectValue)
    .option('--org <organizationId>', 'only jobs of this organization')
    .option('--status <status>', 'only jobs that are open, completed, failed or canceled')
    .option('--provider <provider>', 'only jobs of this provider')
    .option('--model <model>', 'only jobs of this model')
    .option('--type <type>', 'only jobs of this type, for example imageGenerate')
    .option('--error-code <code>', 'only jobs that failed with this error')
    .option('--bulk <bulkId>', 'only items of this bulk job')
    .option('--older-than-seconds <n>', 'only jobs of at least this age', parseNumber)
    .option('--release', 'with resettle: release jobs that cannot be continued')
    .option('--max <n>', 'reject the request if more jobs are chosen (default 1000)', parseNumber)
    .option('--per-second <n>', 'maximum number of jobs per second (default 10)', parseNumber);
  addOperatorAction<StartOptions>({
    command: start,
    canRetry: true,
    path: () => path,
    body: ({ run = false, release, max, perSecond, job, org, bulk, ...conditions }, [action]) => {
      const { actor: _, reason: __, ...filter } = conditions;
      return omitUndefined({
        action,
        dryRun: !run,
        release,
        jobsMax: max,
        perSecond,
        filter: omitUndefined({ ...filter, jobIds: job, organizationId: org, bulkId: bulk }),
      });
    },
    text: formatBulkAction,
  });
  addAction({
    command: group.command('show <bulkActionId>').description('show the progress of a bulk action'),
    as: 'operator',
    path: (id) => `${path}/${id}`,
    text: formatBulkAction,
  });
  addListing({
    command: group.command('list').description('list bulk actions, newest first'),
    as: 'operator',
    path: () => path,
    columns,
  });
  addOperatorAction({
    command: group
      .command('cancel <bulkActionId>')
      .description('cancel a bulk action; the waiting jobs stay unchanged'),
    path: (id) => `${path}/${id}/cancel`,
    text: formatBulkAction,
  });
}
