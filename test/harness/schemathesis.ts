/**
 * Runs Schemathesis, from PyPI in `.cache/`: it reads the OpenAPI document and sends requests that
 * could violate it.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { endpoints } from '../../api/endpoints/index.ts';

const run = promisify(execFile);
const version = '4.32.5';
const directory = fileURLToPath(new URL(`../../.cache/schemathesis-${version}`, import.meta.url));
const executable = `${directory}/bin/schemathesis`;

/** Installs Schemathesis if it is missing. */
export async function installSchemathesis(): Promise<void> {
  if (existsSync(executable)) return;
  await run('python3', ['-m', 'venv', directory]);
  await run(`${directory}/bin/pip`, ['install', '--quiet', `schemathesis==${version}`]);
}

/**
 * Status codes with which a valid request may be rejected, because its key, object or
 * Idempotency-Key does not exist. Any other rejection, such as a 400, means that the document allows
 * more than the API accepts.
 */
const expected = ['2xx', '401', '403', '404', '409', '422'];

/** Status codes with which an invalid request may be rejected. */
const rejected = ['4xx'];

/** Lists the ids of endpoints and of their estimates, which have the same body. */
const estimated = (...names: string[]): string[] =>
  names.flatMap((operation) => [operation, `${operation}Estimate`]);

/**
 * Operations with rules that JSON schema cannot express: further allowed status codes, and the
 * reason.
 */
const untold = [
  {
    why: 'the models are the operator’s, and some fields depend on others',
    statuses: ['400'],
    operations: [
      ...estimated('chat', 'chatCompletions'),
      'createMessage',
      'countMessageTokens',
      'createResponse',
    ],
  },
  {
    why: 'a URL has to be readable, a file to exist; a parameter may be another model’s',
    statuses: ['400'],
    operations: estimated(
      'imageGenerate',
      'imageEdit',
      'imageUpscale',
      'imageRemoveBackground',
      'imageBatch',
      'videoGenerate',
      'videoUpscale',
      'videoRemoveBackground',
      'audioTranscribe',
    ),
  },
  {
    why: 'a plan has its own length, and there has to be a prompt or a plan',
    statuses: ['400'],
    operations: estimated('musicGenerate'),
  },
  {
    why: 'a webhookUrl has to be one that may be called',
    statuses: ['400'],
    operations: estimated('voiceoverGenerate', 'dialogueGenerate', 'musicPlan', 'sfxGenerate'),
  },
  {
    why: 'models by their makers’ names, what only some of them take, files that have to be pictures or sound',
    statuses: ['400', '413'],
    operations: [
      'imagesGenerations',
      'imagesEdits',
      'audioSpeech',
      'audioTranscriptions',
      'createVideo',
    ],
  },
  {
    why: 'what lies in the future; a cursor of this very list; one of two cursors',
    statuses: ['400'],
    operations: [
      'createApiKey',
      'rotateApiKey',
      'createKey',
      'getUsage',
      'getUsageSummary',
      'listFiles',
      'listJobs',
      'listModels',
    ],
  },
  {
    why: 'the model belongs to another capability',
    statuses: ['400'],
    operations: ['listStudioModels'],
  },
  {
    why: 'a new organization has no credits',
    statuses: ['402'],
    operations: ['takeCreditsBack'],
  },
  {
    why: 'a size and a media type have statuses of their own',
    statuses: ['413', '415'],
    operations: ['createUploadUrl'],
  },
  {
    why: 'with the deployment’s key every write says who writes',
    statuses: ['400'],
    operations: endpoints.flatMap(({ id, scope, method }) =>
      scope === 'admin' && method !== 'GET' && id !== undefined ? [id] : [],
    ),
  },
];

function configuration(): string {
  const rule = (statuses: readonly string[]): string =>
    `expected-statuses = ${JSON.stringify(statuses)}`;
  const named = new Set(untold.flatMap((each) => each.operations));
  const exceptions = [...named].map((operation) => {
    const rules = untold.filter((each) => each.operations.includes(operation));
    return [
      ...rules.map(({ why }) => `# ${why}`),
      `[[operations]]\ninclude-operation-id = "${operation}"`,
      '[operations.checks.positive_data_acceptance]',
      rule([...expected, ...rules.flatMap(({ statuses }) => statuses)]),
    ].join('\n');
  });
  return [
    `[checks.positive_data_acceptance]\n${rule(expected)}`,
    // A list with more items than allowed can be larger than the limit of a body.
    `[checks.negative_data_rejection]\n${rule(rejected)}`,
    // Postgres cannot store NUL, so every text rejects it, and the schemas do not repeat that.
    '[generation]\nallow-x00 = false',
    ...exceptions,
    '# a stream that does not end\n[[operations]]\ninclude-operation-id = "streamJobs"\nenabled = false',
  ].join('\n\n');
}

interface Target {
  /** Of the description. */
  url: string;
  key: string;
  /** Of each operation, by `fuzzing`. */
  examples: number;
  seed: string;
}

/** Runs Schemathesis; `failed` is true if it found a violation, `report` lists them. */
export async function runSchemathesis(
  target: Target,
): Promise<{ failed: boolean; report: string }> {
  const config = join(directory, `config-${process.pid}.toml`);
  await writeFile(config, configuration());
  const args = [
    '--config-file',
    config,
    'run',
    target.url,
    '-H',
    `Authorization: Bearer ${target.key}`,
    '--checks',
    'all',
    '--phases',
    'examples,coverage,fuzzing',
    '--max-examples',
    String(target.examples),
    '--seed',
    target.seed,
    '--request-timeout',
    '60',
    '--continue-on-failure',
    '--no-color',
  ];
  try {
    // Schemathesis writes a cache to its working directory.
    const { stdout } = await run(executable, args, { cwd: directory, maxBuffer: 64 * 1024 * 1024 });
    return { failed: false, report: stdout };
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    return { failed: true, report: `${stdout}\n${stderr}` };
  } finally {
    await rm(config, { force: true });
  }
}
