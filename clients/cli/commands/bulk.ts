/** `studio bulk start|show|results|list|cancel|pause|resume|retry`. */
import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Command } from 'commander';
import { z } from 'zod';
import { addAction } from '../actions.ts';
import { CliError, type ApiResponse } from '../api-client.ts';
import { StudioError } from '../../typescript/errors.ts';
import {
  buildItemsBody,
  describeSkipped,
  findRowError,
  listChatSchemas,
  nameRow,
  readItemsFile,
  type ApiDescription,
  type ItemsFile,
} from '../../items/items-file.ts';
import type { RequestSchema } from '../../items/cell-values.ts';
import { UnreadableFileError } from '../../items/text-encoding.ts';
import { collectPair, omitUndefined, parseNumber } from '../fields.ts';
import { addListing } from '../listings.ts';
import {
  fields,
  formatList,
  formatTable,
  objectResponse,
  readList,
  toCells,
  type Fields,
} from '../output.ts';
import { openSession, type Session } from '../session.ts';

const path = '/studio/bulk';

/** Schema of the fields of a bulk job that commands read. */
const bulkResource = z.looseObject({
  bulkId: z.string(),
  status: z.string(),
  done: z.boolean(),
  stopReason: z.string().nullable(),
  etaSeconds: z.number().nullable(),
  counts: z.looseObject({
    total: z.number(),
    completed: z.number(),
    failed: z.number(),
    canceled: z.number(),
  }),
  credits: z.looseObject({ charged: z.number(), forecast: z.number() }),
});
const bulkResponse = z.looseObject({ data: bulkResource });
type Bulk = z.infer<typeof bulkResource>;
type BulkAnswer = ApiResponse<z.infer<typeof bulkResponse>>;

const modelsResponse = z.looseObject({
  data: z.array(z.looseObject({ endpoint: z.string(), request: fields })),
});
const descriptionResponse = z.custom<ApiDescription>((value) => typeof value === 'object');
const errorDetail = z.object({ path: z.string(), message: z.string() });
/** Maximum number of rows that a message names. */
const shownMax = 50;

const columns = {
  bulk: 'bulkId',
  status: 'status',
  reason: 'stopReason',
  items: 'counts.total',
  waiting: 'counts.waiting',
  running: 'counts.running',
  awaiting: 'counts.awaiting',
  completed: 'counts.completed',
  failed: 'counts.failed',
  canceled: 'counts.canceled',
  charged: 'credits.charged',
  forecast: 'credits.forecast',
};
const formatBulk = (bulk: z.infer<typeof objectResponse>['data']): string =>
  formatList(toCells(bulk, { ...columns, maximum: 'credits.maxCredits', created: 'createdAt' }));

/** Creates the command `studio bulk`. */
export function createBulkCommand(): Command {
  const bulk = new Command('bulk').description('run thousands of Studio requests with one budget');
  addStart(bulk);
  bulk
    .command('show <bulkId>')
    .description('show a bulk job')
    .option('--watch', 'wait until it ends, and show the progress')
    .action(async (bulkId: string, { watch }: { watch?: boolean }, self: Command) => {
      const session = openSession(self);
      if (watch) await watchBulk(session, bulkId);
      else showAnswer(session, await readBulk(session, bulkId, 0));
    });
  bulk
    .command('results <bulkId>')
    .description('print the results of the ended items, as JSON in lines')
    .option('--csv', 'print CSV')
    .action(async (bulkId: string, { csv }: { csv?: boolean }, self: Command) => {
      const response = await openSession(self)
        .client('caller')
        .fetchResponse(`${bulkPath(bulkId)}/results`, {
          query: { format: csv ? 'csv' : 'ndjson' },
        });
      if (response.body)
        await pipeline(Readable.fromWeb(response.body), process.stdout, { end: false });
    });
  addListing({
    as: 'caller',
    command: bulk
      .command('list')
      .description('list bulk jobs, newest first')
      .option('--status <status>', 'in_progress, paused, completed, stopped or canceled'),
    path: () => path,
    columns: { ...columns, created: 'createdAt' },
  });
  addChanges(bulk);
  return bulk;
}

function addChanges(bulk: Command): void {
  const change = (name: string, description: string) => ({
    command: bulk.command(`${name} <bulkId>`).description(description),
    method: 'POST' as const,
    path: (bulkId: string) => `${path}/${bulkId}/${name}`,
    text: formatBulk,
  });
  const cancel = change('cancel', 'cancel the waiting items of a bulk job');
  cancel.command.option('--all', 'cancel the running jobs too');
  addAction<{ all?: boolean }>({
    ...cancel,
    body: ({ all }) => ({ items: all ? 'all' : 'waiting' }),
  });
  addAction(change('pause', 'start no further items until the bulk job is resumed'));
  const resume = change('resume', 'resume a paused or stopped bulk job');
  addLimits(resume.command);
  addAction<Record<string, unknown>>({ ...resume, body: omitUndefined });
  addAction(change('retry', 'start the failed items of a bulk job once more'));
}

const addLimits = (command: Command): Command =>
  command
    .option('--max-credits <n>', 'stop before more credits are charged', parseNumber)
    .option('--max-failed-percent <n>', 'stop when more of the items failed', parseNumber)
    .option('--concurrency <n>', 'maximum number of running items', parseNumber);

interface StartOptions extends Record<string, unknown> {
  watch?: boolean;
  estimate?: boolean;
  encoding?: string;
}

/** File of a bulk job whose recipe has the items. */
const noItems: ItemsFile = {
  noun: 'item',
  rows: [],
  emptyRows: [],
  options: {},
  encoding: 'utf-8',
};

function addStart(bulk: Command): void {
  const start = bulk
    .command('start [file]')
    .description('start a bulk job from a CSV or NDJSON file, or - for stdin (docs/bulk.md)')
    .option(
      '--recipe <name>',
      'saved recipe with the options, and with the items if no file has them',
    )
    .option('--skip-invalid', 'start the others if items are invalid')
    .option('--metadata <name=value>', 'a pair, for example team=ads (repeatable)', collectPair)
    .option('--encoding <name>', 'encoding of a file that is not UTF-8, such as windows-1252')
    .option('--estimate', 'show the price without starting anything')
    .option('--watch', 'wait until it ends, and show the progress');
  addLimits(start).action(async (name: string | undefined, flags: StartOptions, self: Command) => {
    const { watch, estimate, encoding, ...options } = flags;
    const session = openSession(self);
    if (name === undefined && flags['recipe'] === undefined)
      throw new CliError('name a file or --recipe');
    const file = name === undefined ? noItems : await readFileOf(session, name, encoding);
    noteSkipped(session, file, { mayReject: flags['skipInvalid'] !== true });
    const body = buildItemsBody(file, options);
    if (estimate) {
      await showBulkEstimate(session, file, body);
      return;
    }
    const started = await sendItems(session, { file, path: '', schema: bulkResponse, body });
    const { bulkId } = started.body.data;
    noteInvalid(session, file, started.body.data);
    if (watch) {
      await watchBulk(session, bulkId);
      return;
    }
    showAnswer(session, started);
    session.output.note(`To watch the bulk job: studio bulk show ${bulkId} --watch`);
  });
}

async function showBulkEstimate(session: Session, file: ItemsFile, body: Blob): Promise<void> {
  const answer = await sendItems(session, {
    file,
    path: '/estimate',
    schema: objectResponse,
    body,
  });
  const { data } = answer.body;
  noteInvalid(session, file, data);
  session.output.show(answer.raw, () => {
    const total = toCells(data, { credits: 'credits', items: 'items', invalid: 'invalid' });
    const uses = { use: 'use', items: 'items', credits: 'credits' };
    return `${formatList(total)}\n${formatTable(readList(data, 'uses').map((use) => toCells(use, uses)))}`;
  });
}

/** Reads a file, or the standard input for `-`. @throws CliError */
async function readFileOf(
  session: Session,
  name: string,
  encoding: string | undefined,
): Promise<ItemsFile> {
  const bytes = await readFile(name === '-' ? '/dev/stdin' : name).catch((error) => {
    throw new CliError(`${name} cannot be read: ${String(error)}`);
  });
  const readSchemas = async () => {
    const client = session.client('caller');
    const { body } = await client.send('/api/v1/studio/models', modelsResponse);
    const described = await client.send('/api/v1/openapi.json', descriptionResponse);
    return new Map<string, RequestSchema>([
      ...body.data.map(
        ({ endpoint, request }) => [endpoint.replace(/^.*\/studio\//, ''), request] as const,
      ),
      ...listChatSchemas(described.body),
    ]);
  };
  try {
    return await readItemsFile(bytes, { readSchemas, otherEncoding: encoding });
  } catch (error) {
    throw error instanceof UnreadableFileError ? new CliError(`${name}: ${error.message}`) : error;
  }
}

/** Prints the empty rows and the rows that are not items. @throws CliError if `mayReject` */
function noteSkipped(
  { output }: Session,
  file: ItemsFile,
  { mayReject }: { mayReject: boolean },
): void {
  const skipped = describeSkipped(file);
  if (skipped !== null) output.note(skipped);
  const problems = file.rows.filter(({ problem }) => problem !== null);
  const lines = problems.map((row) => `${nameRow(file, row)} ${row.problem}`);
  if (mayReject && lines.length > 0) throw new CliError(lines.slice(0, shownMax).join('\n  '));
  for (const line of lines.slice(0, shownMax)) output.note(`skipped ${line}`);
}

function noteInvalid({ output }: Session, file: ItemsFile, data: Fields): void {
  for (const detail of z.array(errorDetail).parse(data['invalidItems'] ?? []))
    output.note(`skipped ${describeError(file, detail)}`);
}

/** Describes an error of an item, for example `row 7 (sku-7): prompt is required`. */
function describeError(file: ItemsFile, detail: z.infer<typeof errorDetail>): string {
  const found = findRowError(file, detail);
  if (!found) return `${detail.path}: ${detail.message}`;
  const { row, field, message } = found;
  return `${nameRow(file, row)}: ${field === '' ? '' : `${field} `}${message}`;
}

/** Sends the items of a file. Errors name rows of the file. @throws StudioError */
async function sendItems<Body>(
  session: Session,
  {
    file,
    path: child,
    schema,
    body,
  }: { file: ItemsFile; path: string; schema: z.ZodType<Body>; body: Blob },
): Promise<ApiResponse<Body>> {
  const api = session.client('caller');
  try {
    return await api.send(`/api/v1${path}${child}`, schema, { body, canRetry: child === '' });
  } catch (error) {
    if (
      !(error instanceof StudioError) ||
      !error.details.some((detail) => findRowError(file, detail))
    )
      throw error;
    const { code, message, details, ...others } = error;
    const lines = details.map((detail) => describeError(file, detail));
    const [summary = message] = message.split('; the first error');
    throw new StudioError(code, [summary, ...lines].join('\n  '), others);
  }
}

const bulkPath = (bulkId: string): string => `/api/v1${path}/${encodeURIComponent(bulkId)}`;

const readBulk = (session: Session, bulkId: string, wait: number): Promise<BulkAnswer> =>
  session.client('caller').send(bulkPath(bulkId), bulkResponse, { query: { wait } });

function showAnswer({ output }: Session, { body, raw }: BulkAnswer): void {
  output.show(raw, () => formatBulk(body.data));
}

/** Maximum time that a poll waits for the end: a bar moves each second, lines are fewer. */
const pollSeconds = { bar: 1, lines: 5 };

/** Waits until a bulk job ends. The exit status is 1 unless all items are completed. */
async function watchBulk(session: Session, bulkId: string): Promise<void> {
  const { output } = session;
  const isTerminal = process.stderr.isTTY;
  const wait = isTerminal ? pollSeconds.bar : pollSeconds.lines;
  let answer = await readBulk(session, bulkId, 0);
  for (;;) {
    const bulk = answer.body.data;
    output.showProgress(isTerminal ? formatBar(bulk) : `${bulkId}  ${formatProgress(bulk)}`);
    if (bulk.done) break;
    answer = await readBulk(session, bulkId, wait);
  }
  output.endProgress();
  showAnswer(session, answer);
  const { counts } = answer.body.data;
  if (counts.completed < counts.total) process.exitCode = 1;
}

const countEnded = ({ counts }: Bulk): number => counts.completed + counts.failed + counts.canceled;
const barWidth = 24;

/** Formats a progress bar, for example `[████░░░░] 5 of 12  in_progress  7.8 credits`. */
function formatBar(bulk: Bulk): string {
  const filled = Math.floor((barWidth * countEnded(bulk)) / bulk.counts.total);
  return `[${'█'.repeat(filled)}${'░'.repeat(barWidth - filled)}] ${formatProgress(bulk)}`;
}

function formatProgress(bulk: Bulk): string {
  const { status, stopReason, counts, credits, etaSeconds } = bulk;
  return [
    `${countEnded(bulk)} of ${counts.total}`,
    stopReason === null ? status : `${status} (${stopReason})`,
    counts.failed > 0 ? `${counts.failed} failed` : '',
    `${credits.charged} credits`,
    !bulk.done && etaSeconds !== null ? `${etaSeconds} s left` : '',
  ]
    .filter((part) => part !== '')
    .join('  ');
}
