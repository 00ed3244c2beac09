/**
 * Runs Schemathesis, from PyPI in `.cache/`: it reads the OpenAPI document and sends requests that
 * could violate it.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { installPython } from '../../dev/stack/tools.ts';
import { endpoints } from '../../api/endpoints/index.ts';

const run = promisify(execFile);

/**
 * Program that Schemathesis loads. Its serializer sends newline-delimited JSON, which Schemathesis does not know. Its filter
 * skips more than half of all cases: of each field, it sends the first value of a wrong type; of a limit, the limit itself and
 * the first value beyond it, not the value before it; of each path, the first unknown method.
 */
const hooks = `import json
import re
import schemathesis

sent = set()


@schemathesis.hook
def filter_case(context, case):
    data = case.meta and case.meta.phase.data
    scenario = getattr(data, "scenario", None)
    if scenario is None:
        return True
    if "Near-boundary" in data.description:
        return False
    if scenario.name == "INCORRECT_TYPE":
        field = re.sub(r"(/anyOf/\\d+)?/type$", "", data.location or data.description)
        key = (case.operation.label, field, data.parameter)
    elif scenario.name == "UNSPECIFIED_HTTP_METHOD":
        key = case.operation.path
    else:
        return True
    if key in sent:
        return False
    sent.add(key)
    return True


@schemathesis.serializer("application/x-ndjson")
def serialize(ctx, value):
    return json.dumps(value).encode()
`;

/** Installs Schemathesis if it is missing; returns the path of its command. */
export const installSchemathesis = async (): Promise<string> =>
  join(await installPython('schemathesis', ['schemathesis==4.32.5']), 'schemathesis');

/**
 * Status codes with which a valid request may be rejected, because its key, object or
 * Idempotency-Key does not exist. Any other rejection, such as a 400, means that the document allows
 * more than the API accepts.
 */
const expected = ['2xx', '401', '403', '404', '409', '422'];

/** Status codes with which an invalid request may be rejected. */
const rejected = ['4xx'];

/** Adds the ids of their estimates, which have the same body, to ids of endpoints. */
const withEstimates = (names: string): string => names.replaceAll(/\w+/g, '$& $&Estimate');

const writes = endpoints.filter(({ scope, method }) => scope === 'admin' && method !== 'GET');
const images = 'imageGenerate imageEdit imageUpscale imageRemoveBackground imageBatch';
const videos = 'videoGenerate videoUpscale videoRemoveBackground videoMerge';

/**
 * Operations with rules that JSON schema cannot express: the reason, the further allowed status
 * codes, and the ids.
 */
const exceptions: [why: string, statuses: string[], ids: string][] = [
  [
    'the models are the operator’s, and some fields depend on others',
    ['400'],
    `${withEstimates('chat chatCompletions')} createMessage countMessageTokens createResponse`,
  ],
  [
    'a URL has to be readable, a file to exist; a parameter may be another model’s',
    ['400'],
    withEstimates(`${images} ${videos} audioTranscribe`),
  ],
  [
    'steps and items are requests to other endpoints, and steps refer to each other; a price has a limit',
    ['400'],
    `${withEstimates('pipeline')} resumePipeline startBulk estimateBulk resumeBulk`,
  ],
  ['an organization has a maximum number of open bulk jobs', ['429'], 'startBulk'],
  ['the body has to be one of the endpoint that `use` names', ['400'], 'saveRecipe'],
  ['a time limits only a decision about all items', ['400'], 'decideBulkItems'],
  ['a cursor of this very list', ['400'], 'listBulks listBulkItems listRequests listOpenAIFiles'],
  [
    'a plan has its own length, and there has to be a prompt or a plan',
    ['400'],
    withEstimates('musicGenerate'),
  ],
  [
    'a webhookUrl has to be one that may be called',
    ['400'],
    `${withEstimates('voiceoverGenerate dialogueGenerate musicPlan sfxGenerate')} createWebhookEndpoint updateWebhookEndpoint`,
  ],
  [
    'models by their makers’ names, what only some of them take, files that have to be pictures or sound',
    ['400', '413', '415'],
    'imagesGenerations imagesEdits audioSpeech audioTranscriptions createVideo',
  ],
  [
    'what lies in the future; a cursor of this very list; one of two cursors',
    ['400'],
    'createApiKey rotateApiKey createKey getUsage getUsageSummary listFiles listJobs listModels',
  ],
  ['the model belongs to another capability', ['400'], 'listStudioModels'],
  ['the vectors of a model have a maximum length', ['400'], 'createEmbeddings estimateEmbeddings'],
  ['the sums are grouped by a list of names', ['400'], 'getMargin'],
  ['X-End-User has to be UTF-8', ['400'], 'createBatch'],
  [
    'scopes are not repeated, and an end user has a limited number of tokens',
    ['400'],
    'createBrowserToken',
  ],
  ['a new organization has no credits', ['402'], 'takeCreditsBack'],
  ['a size and a media type have statuses of their own', ['413', '415'], 'createUploadUrl'],
  [
    'with the deployment’s key every write says who writes',
    ['400'],
    writes.map(({ id }) => id ?? '').join(' '),
  ],
];

/** Ids of the organization, the user and the key that requests may change, by their parameters in paths. */
export type Subject = Record<'organizationId' | 'userId' | 'keyId', string>;

/**
 * Returns parameters for operations that change an organization, a user or a key. Schemathesis takes ids from lists, and
 * would limit, suspend or revoke the caller of its other requests.
 */
function fixSubject(operation: string, subject: Subject): string[] {
  const { method, path = '' } = endpoints.find(({ id }) => id === operation) ?? {};
  if (method === 'GET') return [];
  const named = Object.entries(subject).filter(([name]) => path.split('/').includes(`:${name}`));
  const fixed = named.map(([name, id]) => `"path.${name}" = "${id}"`);
  return fixed.length > 0 ? [`parameters = { ${fixed.join(', ')} }`] : [];
}

/**
 * Operations with the bodies of other operations, whose systematic cases are not sent twice: those of
 * pipelines and of counted tokens would be a fourth of all requests.
 */
const repeatsBodies = (operation: string): boolean =>
  ['pipeline', 'countMessageTokens'].includes(operation) || /^estimate|Estimate$/.test(operation);

/** Formats the rules of the operations in a group. Schemathesis compares each request with all rules that it is given. */
function formatConfiguration({ subject, operations: { has } }: Target): string {
  const allow = (statuses: readonly string[]): string =>
    `expected-statuses = ${JSON.stringify(statuses)}`;
  const included = endpoints.filter(has);
  const operations = included.flatMap(({ id: operation }) => {
    if (operation === undefined) return [];
    const rules = exceptions.filter(([, , ids]) => ids.split(' ').includes(operation));
    const fixed = fixSubject(operation, subject);
    const coverage = repeatsBodies(operation)
      ? ['[operations.phases.coverage]', 'enabled = false']
      : [];
    if (rules.length === 0 && fixed.length === 0 && coverage.length === 0) return [];
    return [
      ...rules.map(([why]) => `# ${why}`),
      `[[operations]]\ninclude-operation-id = "${operation}"`,
      ...fixed,
      '[operations.checks.positive_data_acceptance]',
      allow([...expected, ...rules.flatMap(([, statuses]) => statuses)]),
      ...coverage,
    ].join('\n');
  });
  return [
    // The default is 10 s. A busy machine takes longer for 10,000 items of a bulk job; other tests measure times.
    '[checks]\nmax_response_time = 200',
    `[checks.positive_data_acceptance]\n${allow(expected)}`,
    // A list with more items than allowed can be larger than the limit of a body.
    `[checks.negative_data_rejection]\n${allow(rejected)}`,
    // Postgres cannot store NUL, so every text rejects it, and the schemas do not repeat that.
    '[generation]\nallow-x00 = false',
    ...operations,
    ...included
      .filter(({ id }) => id === 'streamJobs' || id === 'streamBulk')
      .map(
        ({ id }) =>
          `# a stream that does not end\n[[operations]]\ninclude-operation-id = "${id}"\nenabled = false`,
      ),
  ].join('\n\n');
}

/** Operations of a document: the options that choose them, without one all, and whether an endpoint is one of them. */
export interface Operations {
  options: string[];
  has: (endpoint: (typeof endpoints)[number]) => boolean;
}

interface Target {
  /** The URL of the OpenAPI document. */
  url: string;
  key: string;
  subject: Subject;
  operations: Operations;
  /** The number of requests that `fuzzing` makes for an operation. */
  examples: number;
  seed: string;
}

/** Runs Schemathesis; `failed` is true if it found a violation, `report` lists them. */
export async function runSchemathesis(
  target: Target,
): Promise<{ failed: boolean; report: string }> {
  // Schemathesis also writes a cache to its working directory, and runs may overlap.
  const place = await mkdtemp(join(tmpdir(), 'schemathesis-'));
  const config = join(place, 'config.toml');
  await writeFile(config, formatConfiguration(target));
  await writeFile(join(place, 'gateway_hooks.py'), hooks);
  const { url, key, examples, seed, operations } = target;
  const phases = `--checks all --phases examples,coverage,fuzzing --max-examples ${examples}`;
  const options = `${phases} --seed ${seed} --request-timeout 300 --continue-on-failure --no-color`;
  const header = `Authorization: Bearer ${key}`;
  const args = [
    '--config-file',
    config,
    'run',
    url,
    '-H',
    header,
    ...options.split(' '),
    ...operations.options,
  ];
  // The first request creates the description. Schemathesis waits at most ten seconds for it.
  await (await fetch(url)).arrayBuffer();
  try {
    const { stdout } = await run(await installSchemathesis(), args, {
      cwd: place,
      maxBuffer: 64 * 1024 * 1024,
      // Python's client reads the whole environment for each request, to find a proxy.
      env: { PATH: process.env['PATH'], PYTHONPATH: place, SCHEMATHESIS_HOOKS: 'gateway_hooks' },
    });
    return { failed: false, report: stdout };
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    return { failed: true, report: `${stdout}\n${stderr}` };
  } finally {
    await rm(place, { force: true, recursive: true });
  }
}
