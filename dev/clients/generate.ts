/**
 * `npm run dev -- clients`: generates those parts of clients/ and the console that depend on the API's description. The files
 * are committed; test/clients/generated.test.ts fails if they are outdated.
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { keysOf } from '../../domain/json.ts';
import { describeForClients, describeForOperators } from './description.ts';
import { asyncRuns, header, makeSynchronous } from './python.ts';
import { installOpenapiTypescript, installPythonCommands, root, run } from './tools.ts';

const python = 'clients/python/src/studio_gateway';

/** Paths of the generated files, relative to the root of the project. */
export const generatedFiles = {
  schema: 'clients/typescript/schema.ts',
  operators: 'console/gateway/admin-schema.ts',
  schemas: `${python}/schemas.py`,
  asyncRuns: `${python}/_async_runs.py`,
  runs: `${python}/_runs.py`,
  client: `${python}/_client.py`,
  transport: `${python}/_transport.py`,
} as const;
/** Asynchronous Python modules from which the synchronous ones are generated. */
const asyncModules = {
  client: `${python}/_async_client.py`,
  transport: `${python}/_async_transport.py`,
} as const;

/** Writes the files in `generatedFiles` below a folder. */
export async function generateClients(into: string): Promise<void> {
  const { description, capabilities } = describeForClients();
  const directory = await mkdtemp(join(tmpdir(), 'clients-'));
  try {
    const openapi = join(directory, 'openapi.json');
    const operators = join(directory, 'operators.json');
    await writeFile(openapi, JSON.stringify(description));
    await writeFile(operators, JSON.stringify(describeForOperators()));
    for (const file of Object.values(generatedFiles)) {
      await mkdir(dirname(join(into, file)), { recursive: true });
    }
    await Promise.all([
      generateTypescript(openapi, join(into, generatedFiles.schema)),
      generateTypescript(operators, join(into, generatedFiles.operators)),
      generatePython(openapi, join(into, generatedFiles.schemas)),
    ]);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
  const runs = asyncRuns(capabilities);
  await writeFile(join(into, generatedFiles.asyncRuns), header + runs);
  await writeFile(join(into, generatedFiles.runs), makeSynchronous(runs));
  for (const module of keysOf(asyncModules)) {
    const source = await readFile(join(root, asyncModules[module]), 'utf8');
    await writeFile(join(into, generatedFiles[module]), makeSynchronous(source));
  }
}

async function generateTypescript(openapi: string, output: string): Promise<void> {
  const command = await installOpenapiTypescript();
  // A request may omit fields that have a default.
  const flags = ['--default-non-nullable=false', '--alphabetize=false'];
  await run(process.execPath, [command, openapi, '--output', output, ...flags]);
}

async function generatePython(openapi: string, output: string): Promise<void> {
  const commands = await installPythonCommands();
  const options = {
    input: openapi,
    'input-file-type': 'openapi',
    'openapi-scopes': 'schemas',
    output,
    'output-model-type': 'typing.TypedDict',
    'target-python-version': '3.11',
    'enum-field-as-literal': 'all',
    'custom-file-header': '# Made by `npm run dev -- clients` from the OpenAPI description.',
    formatters: 'builtin',
  };
  await run(join(commands, 'datamodel-codegen'), [
    '--no-use-closed-typed-dict',
    '--collapse-root-models',
    '--disable-timestamp',
    ...Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]),
  ]);
}

if (import.meta.main) await generateClients(root);
