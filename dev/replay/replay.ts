/**
 * `npm run replay`: replays recorded jobs against the workflow code of the working tree. Exit status: 0 if all replay, 1 if
 * some diverge, 2 for invalid arguments.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { Client, WorkflowNotFoundError } from '@temporalio/client';
import { historyFromJSON, historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { createDataConverter, encryptedEncoding } from '../../platform/payload-codec.ts';
import { openTemporal } from '../../platform/temporal-connection.ts';
import { loadWorkflowBundle } from '../../worker/bundle.ts';
import {
  bundleWithRecorder,
  findDivergence,
  replays,
  silenceRuntime,
  type NamedHistory,
  type ReplayedCode,
} from './divergence.ts';
import { loadPayloadSettings, loadTemporalConfig } from './replay-settings.ts';
import { findScrubbedWorkflowId, scrubHistory } from './scrub.ts';

interface Options {
  since?: string;
  type?: string;
  failed?: boolean;
  query?: string;
  limit: number;
  save?: string;
}

/** Encoding of encrypted payloads in base64, as in the JSON of a history. */
const encryptedEncodingBase64 = Buffer.from(encryptedEncoding).toString('base64');
const histories = new URL('../../test/histories/', import.meta.url);

const program = new Command('replay')
  .description('Replay recorded jobs against the workflow code of the working tree')
  .argument('[run]', 'id of a job, which is also its workflow id, or a JSON file with a history')
  .option(
    '--since <time>',
    'all jobs that started within this period: 90s, 45m, 12h, 7d',
    parseSince,
  )
  .option('--type <type>', 'only jobs of this type, e.g. imageGenerate', parseName)
  .option('--failed', 'only jobs that failed')
  .option('--query <query>', 'replay the workflows that match this Temporal list filter instead')
  .option('--limit <n>', 'maximum number of runs to replay', parseCount, 1000)
  .option(
    '--save <name>',
    'save the run as test/histories/<name>.json, without private data',
    parseName,
  )
  .exitOverride();

try {
  program.parse();
  process.exitCode = await run(program.args[0], program.opts<Options>());
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
  else {
    process.stderr.write(`replay: ${error instanceof Error ? error.message : String(error)}\n`);
    // An installed runtime that was never used would keep the process alive.
    process.exit(2);
  }
}

async function run(runArgument: string | undefined, options: Options): Promise<number> {
  const query = options.query ?? buildQuery(options);
  if (runArgument === undefined && options.save !== undefined) {
    throw new Error('--save needs a run: add its job id or file');
  }
  if (runArgument === undefined && query === '') {
    throw new Error('specify a run, or --since, --type, --failed or --query');
  }
  // Installed as late as possible, because an unused runtime keeps the process alive.
  silenceRuntime();
  if (runArgument === undefined) {
    return withClient((client) => report(fetchRuns(client, query), options.limit));
  }
  const replayedRun = runArgument.endsWith('.json')
    ? await readRun(runArgument)
    : await fetchRun(runArgument);
  const status = await report([replayedRun]);
  if (status === 0 && options.save !== undefined) await save(replayedRun, options.save);
  return status;
}

/** Fetches the runs that match a query, newest first; each history is fetched when it is needed. */
async function* fetchRuns(client: Client, query: string): AsyncGenerator<NamedHistory> {
  for await (const { workflowId, runId } of client.workflow.list({ query })) {
    yield {
      workflowId,
      history: await client.workflow.getHandle(workflowId, runId).fetchHistory(),
    };
  }
}

function buildQuery({ since, type, failed }: Options): string {
  return [
    since === undefined ? '' : `StartTime >= '${since}'`,
    type === undefined ? '' : `WorkflowType = '${type}'`,
    failed ? `ExecutionStatus = 'Failed'` : '',
  ]
    .filter(Boolean)
    .join(' AND ');
}

/** Replays each history, and prints where it diverges. Only a diverging history is replayed again, with the recorder. */
async function report(
  runs: Iterable<NamedHistory> | AsyncIterable<NamedHistory>,
  limit = Infinity,
): Promise<number> {
  const bundle = await buildBundle(loadWorkflowBundle);
  let recording: ReplayedCode | undefined;
  let replayed = 0;
  let diverged = 0;
  for await (const replayedRun of runs) {
    if (replayed >= limit) break;
    replayed += 1;
    if (await replays(bundle, replayedRun)) continue;
    diverged += 1;
    recording ??= await buildBundle(bundleWithRecorder);
    const found = await findDivergence(recording, replayedRun);
    const type =
      replayedRun.history.events?.[0]?.workflowExecutionStartedEventAttributes?.workflowType?.name;
    process.stdout.write(
      `${replayedRun.workflowId} ${type}: diverges\n` +
        `  event     ${found?.eventId ?? '-'}\n` +
        `  expected  ${found?.expected}\n` +
        `  got       ${found?.got}\n` +
        `  at        ${found?.at.join('\n            ') || '-'}\n` +
        `  because   ${found?.message ?? 'the second replay did not diverge'}\n`,
    );
  }
  process.stdout.write(`${replayed} replayed, ${diverged} diverge\n`);
  return diverged === 0 ? 0 : 1;
}

/** Builds the bundle to replay, with a data converter for the keys in the environment. */
async function buildBundle(
  bundle: (options: { encodeFailures: boolean }) => Promise<{ code: string }>,
): Promise<ReplayedCode> {
  const settings = loadPayloadSettings();
  return {
    ...(await bundle({ encodeFailures: settings.PAYLOAD_ENCRYPTION })),
    dataConverter: createDataConverter(settings),
  };
}

async function readRun(path: string): Promise<NamedHistory> {
  const content: unknown = JSON.parse(await readFile(path, 'utf8'));
  // The file may be one of test/histories/, which also has the workflow id, or the output of `temporal workflow show
  // --output json`.
  const fields = typeof content === 'object' && content !== null ? content : {};
  const history = historyFromJSON('history' in fields ? fields.history : content);
  const workflowId = 'workflowId' in fields ? String(fields.workflowId) : findWorkflowId(history);
  return { workflowId, history };
}

function findWorkflowId({ events }: NamedHistory['history']): string {
  return events?.[0]?.workflowExecutionStartedEventAttributes?.workflowId || 'replayed';
}

async function fetchRun(workflowId: string): Promise<NamedHistory> {
  return withClient(async (client) => {
    try {
      const handle = client.workflow.getHandle(workflowId);
      // Check first that the workflow exists, because the error of fetchHistory would only be a status code.
      await handle.describe();
      return { workflowId, history: await handle.fetchHistory() };
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
      throw new Error(`Temporal has no workflow with id ${workflowId}`, { cause: error });
    }
  });
}

async function withClient<Result>(use: (client: Client) => Promise<Result>): Promise<Result> {
  const config = loadTemporalConfig();
  const connection = await openTemporal(config);
  try {
    return await use(
      new Client({
        connection,
        namespace: config.TEMPORAL_NAMESPACE,
        dataConverter: createDataConverter(config),
      }),
    );
  } finally {
    await connection.close();
  }
}

async function save({ history }: NamedHistory, name: string): Promise<void> {
  const json = historyToJSON(history);
  if (json.includes(encryptedEncodingBase64))
    throw new Error('not saved: the payloads of the run are encrypted');
  const scrubbed = scrubHistory(JSON.parse(json));
  const workflowId = findScrubbedWorkflowId(scrubbed) ?? 'replayed';
  const saved = { workflowId, history: historyFromJSON(scrubbed) };
  if (!(await replays(await buildBundle(loadWorkflowBundle), saved))) {
    throw new Error('not saved: without private data, the run does not replay');
  }
  const file = new URL(`${name}.json`, histories);
  await writeFile(file, `${JSON.stringify({ workflowId, history: scrubbed }, null, 1)}\n`);
  process.stdout.write(`saved test/histories/${name}.json\n`);
}

function parseName(text: string): string {
  if (!/^[A-Za-z][\w.-]{0,99}$/.test(text))
    throw new InvalidArgumentError(
      'must be 1 to 100 letters, digits, dots, dashes or underscores, and start with a letter.',
    );
  return text;
}

function parseCount(text: string): number {
  if (!/^[1-9]\d{0,6}$/.test(text))
    throw new InvalidArgumentError('must be a whole number from 1 to 9999999.');
  return Number(text);
}

function parseSince(text: string): string {
  const [, amount, unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const unitMs = new Map([
    ['s', 1000],
    ['m', 60_000],
    ['h', 3_600_000],
    ['d', 86_400_000],
  ]).get(unit);
  if (amount === undefined || unitMs === undefined) {
    throw new InvalidArgumentError(
      'must be a number with a unit, for example 90s, 45m, 12h or 7d.',
    );
  }
  return new Date(Date.now() - Number(amount) * unitMs).toISOString();
}
