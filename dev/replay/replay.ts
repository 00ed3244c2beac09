/**
 * `npm run replay`: replays recorded jobs against the workflow code of the working tree. Exit
 * status: 0 all replay, 1 some do not, 2 invalid arguments.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { Client, WorkflowNotFoundError } from '@temporalio/client';
import { historyFromJSON, historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { createDataConverter, sealedEncoding } from '../../platform/payload-codec.ts';
import { openTemporal } from '../../platform/temporal.ts';
import { loadWorkflowBundle } from '../../worker/bundle.ts';
import {
  bundleWithRecorder,
  explain,
  replays,
  silenceRuntime,
  type NamedHistory,
  type ReplayedCode,
} from './divergence.ts';
import { loadPayloadSettings, loadTemporalConfig } from './replay-settings.ts';
import { scrubbedIdOf, scrubHistory } from './scrub.ts';

interface Options {
  since?: string;
  type?: string;
  failed?: boolean;
  query?: string;
  limit: number;
  save?: string;
}

/** Encoding of an encrypted payload (platform/payload-codec.ts). */
const sealed = Buffer.from(sealedEncoding).toString('base64');
const histories = new URL('../../test/histories/', import.meta.url);

const program = new Command('replay')
  .description('Run recorded jobs again against the workflow code of the working tree')
  .argument('[run]', 'id of a job (its workflow has the same), or a history as a JSON file')
  .option('--since <time>', 'all jobs that began within this time: 90s, 45m, 12h, 7d', sinceIso)
  .option('--type <type>', 'only jobs of this type, e.g. imageGenerate', word)
  .option('--failed', 'only jobs that failed')
  .option('--query <query>', 'a list filter of Temporal instead')
  .option('--limit <n>', 'at most so many', count, 1000)
  .option(
    '--save <name>',
    'keep the run in test/histories/<name>.json, without what is private',
    word,
  )
  .exitOverride();

try {
  program.parse();
  process.exitCode = await run(program.args[0], program.opts<Options>());
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
  else {
    process.stderr.write(`replay: ${error instanceof Error ? error.message : String(error)}\n`);
    // A runtime that is installed and never used would keep the process alive.
    process.exit(2);
  }
}

async function run(named: string | undefined, options: Options): Promise<number> {
  const query = options.query ?? queryOf(options);
  if (named === undefined && options.save !== undefined) {
    throw new Error('--save takes one run: name it');
  }
  if (named === undefined && query === '') {
    throw new Error('name a run, or set --since, --type, --failed or --query');
  }
  // Installed as late as possible, because an installed runtime keeps the process alive until it is
  // used.
  silenceRuntime();
  if (named === undefined) {
    return withClient((client) => report(listed(client, query), options.limit));
  }
  const one = named.endsWith('.json') ? await ofFile(named) : await ofServer(named);
  const status = await report([one]);
  if (status === 0 && options.save !== undefined) await save(one, options.save);
  return status;
}

/** Lists the runs of the server, newest first; each history is fetched when it is needed. */
async function* listed(client: Client, query: string): AsyncGenerator<NamedHistory> {
  for await (const { workflowId, runId } of client.workflow.list({ query })) {
    yield {
      workflowId,
      history: await client.workflow.getHandle(workflowId, runId).fetchHistory(),
    };
  }
}

function queryOf({ since, type, failed }: Options): string {
  return [
    since === undefined ? '' : `StartTime >= '${since}'`,
    type === undefined ? '' : `WorkflowType = '${type}'`,
    failed ? `ExecutionStatus = 'Failed'` : '',
  ]
    .filter(Boolean)
    .join(' AND ');
}

/**
 * Replays each history and prints divergences; only a diverging history is replayed again with the
 * recorder.
 */
async function report(
  runs: Iterable<NamedHistory> | AsyncIterable<NamedHistory>,
  limit = Infinity,
): Promise<number> {
  const bundle = await codeOf(loadWorkflowBundle);
  let recording: ReplayedCode | undefined;
  let seen = 0;
  let parted = 0;
  for await (const one of runs) {
    if (seen >= limit) break;
    seen += 1;
    if (await replays(bundle, one)) continue;
    parted += 1;
    recording ??= await codeOf(bundleWithRecorder);
    const found = await explain(recording, one);
    const type =
      one.history.events?.[0]?.workflowExecutionStartedEventAttributes?.workflowType?.name;
    process.stdout.write(
      `${one.workflowId} ${type}: diverges\n` +
        `  event     ${found?.eventId ?? '-'}\n` +
        `  expected  ${found?.expected}\n` +
        `  got       ${found?.got}\n` +
        `  at        ${found?.at.join('\n            ') || '-'}\n` +
        `  because   ${found?.message ?? 'it did so once, and then no more'}\n`,
    );
  }
  process.stdout.write(`${seen} replayed, ${parted} diverge\n`);
  return parted === 0 ? 0 : 1;
}

/** Bundle of the working tree's workflows, with a codec for the keys of the environment. */
async function codeOf(
  bundle: (options: { encodeFailures: boolean }) => Promise<{ code: string }>,
): Promise<ReplayedCode> {
  const settings = loadPayloadSettings();
  return {
    ...(await bundle({ encodeFailures: settings.PAYLOAD_ENCRYPTION })),
    dataConverter: createDataConverter(settings),
  };
}

async function ofFile(path: string): Promise<NamedHistory> {
  const kept: unknown = JSON.parse(await readFile(path, 'utf8'));
  // Parses a history as the tests store it, with its workflow id, or as `temporal workflow show
  // --output json` prints it.
  const fields = typeof kept === 'object' && kept !== null ? kept : {};
  const history = historyFromJSON('history' in fields ? fields.history : kept);
  const workflowId = 'workflowId' in fields ? String(fields.workflowId) : idOf(history);
  return { workflowId, history };
}

function idOf({ events }: NamedHistory['history']): string {
  return events?.[0]?.workflowExecutionStartedEventAttributes?.workflowId || 'replayed';
}

async function ofServer(workflowId: string): Promise<NamedHistory> {
  return withClient(async (client) => {
    try {
      const handle = client.workflow.getHandle(workflowId);
      // Checks that the workflow exists, because the error of the history would only be a status
      // code.
      await handle.describe();
      return { workflowId, history: await handle.fetchHistory() };
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
      throw new Error(`the server knows no workflow ${workflowId}`, { cause: error });
    }
  });
}

async function withClient<Answer>(use: (client: Client) => Promise<Answer>): Promise<Answer> {
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
  if (json.includes(sealed)) throw new Error('its payloads are sealed: not saved');
  const scrubbed = scrubHistory(JSON.parse(json));
  const workflowId = scrubbedIdOf(scrubbed) ?? 'replayed';
  const again = { workflowId, history: historyFromJSON(scrubbed) };
  if (!(await replays(await codeOf(loadWorkflowBundle), again))) {
    throw new Error('without what is private the run does not replay: not saved');
  }
  const file = new URL(`${name}.json`, histories);
  await writeFile(file, `${JSON.stringify({ workflowId, history: scrubbed }, null, 1)}\n`);
  process.stdout.write(`saved test/histories/${name}.json\n`);
}

function word(text: string): string {
  if (!/^[A-Za-z][\w.-]{0,99}$/.test(text))
    throw new InvalidArgumentError('Letters, digits, . - _');
  return text;
}

function count(text: string): number {
  if (!/^[1-9]\d{0,6}$/.test(text)) throw new InvalidArgumentError('A number from 1.');
  return Number(text);
}

function sinceIso(text: string): string {
  const [, amount, unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const unitMs = new Map([
    ['s', 1000],
    ['m', 60_000],
    ['h', 3_600_000],
    ['d', 86_400_000],
  ]).get(unit);
  if (amount === undefined || unitMs === undefined) {
    throw new InvalidArgumentError('Say for example 90s, 45m, 12h or 7d.');
  }
  return new Date(Date.now() - Number(amount) * unitMs).toISOString();
}
